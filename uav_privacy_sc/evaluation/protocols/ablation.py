"""P1's fixed-budget comparison (5.8), and the same with one part of the system left out at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from uav_privacy_sc import scene
from uav_privacy_sc.control.bcd import optimize
from uav_privacy_sc.control.policy import load_policies
from uav_privacy_sc.control.utility import assess
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Measurement, Results
from uav_privacy_sc.evaluation.messages import (
    EPSILON_L,
    P_TX,
    About,
    protect,
    score_features,
    score_mask,
    score_picture,
    transmit,
)
from uav_privacy_sc.evaluation.metrics import INFEASIBLE, Missing
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.profiles import protection_config, varied
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.protocols.scenarios import _block
from uav_privacy_sc.evaluation.result_tables import Cell, ResultTable, reasons, with_count, with_interval, with_tests
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate, paired
from uav_privacy_sc.release import Budgets

NAME = "ablation"
EPSILON_V = 1.0
#: A location budget at which a place arrives as it was: planar Laplace noise of 2e-8 image sides.
IN_CLEAR = 1e6


@dataclass(frozen=True)
class Variant:
    """A way to send the message: mechanism, budget map, and whether places are private and descriptors used."""

    name: str
    mechanism: str
    budget_map: tuple[tuple[str, Any], ...] = ()
    private_places: bool = True
    prior: bool = True


VARIANTS = (
    Variant("none", "none"),
    Variant("uniform", "uniform"),
    Variant("region_aware", "region_aware"),
    Variant("without context ring", "region_aware", (("context_expansion", {}),)),
    Variant("Eq. 11 for Algorithm 1", "region_aware", (("rule", "eq11"),)),
    Variant("background factor 100", "region_aware", (("kappa_bg", 100.0),)),
    Variant("without location DP", "region_aware", private_places=False),
    Variant("without descriptors", "region_aware", prior=False),
)


def units(setting: Setting, store: SampleStore) -> Iterator[Unit]:
    """Yield one unit a sample."""
    for sample in store:
        yield Unit(sample.name, partial(measure, sample, setting))


def measure(sample: Sample, setting: Setting) -> list[Measurement]:
    """Return every variant on one sample, and the controller against an even split at full power."""
    found: list[Measurement] = []
    for seed in range(setting.seeds):
        about = About(NAME, setting, sample, seed)
        for variant in VARIANTS:
            found += _variant(about.but(mechanism=variant.name, epsilon_v=EPSILON_V, epsilon_l=EPSILON_L), variant)
        found += _control(about)
    return found


def _variant(about: About, variant: Variant) -> Iterator[Measurement]:
    setting, sample = about.setting, about.sample
    config = varied(protection_config(setting.profile), variant.mechanism, **dict(variant.budget_map))
    places = (EPSILON_L, P_TX) if variant.private_places else (IN_CLEAR, P_TX, "planar_laplace")
    release = protect(sample, config, Budgets(EPSILON_V, *places), setting.noise_seed(sample.name, about.seed))  # type: ignore[arg-type]
    heard = transmit(release, P_TX, setting, sample, about.seed).ground
    networks = networks_for(setting.networks)
    prior = heard.prior if variant.prior else scene.no_objects()
    yield from score_mask(about, networks.decoder(heard.heard, prior))
    yield from score_features(about, release.features)
    yield from score_picture(about.but(attacker="inverter"), networks.inverters["inverter"](release.features))


def _control(about: About) -> Iterator[Measurement]:
    """Utility of BCD, and of budgets split evenly at all the power there is, at the same fade."""
    state = _block(about.setting, about.sample, about.seed)
    for name, policy in load_policies().items():
        point = optimize(policy, state.gain, state.noise_power)
        half, snr = policy.epsilon_total / 2, policy.p_available * state.gain / state.noise_power
        even = assess(policy, half, half, snr)
        rows = (("bcd", point.utility, point.feasible), ("without BCD", even.utility, even.violation == 0.0))
        for mechanism, utility, feasible in rows:
            here = about.but(mechanism=mechanism, condition=name)
            yield here.row("utility", float(utility) if feasible else Missing(INFEASIBLE))
            yield here.row("constraints_held", float(feasible))


_COLUMNS = (
    ("accuracy", "category_accuracy", 3, ""),
    ("… objects", "object_accuracy", 3, ""),
    ("mIoU", "miou", 3, ""),
    ("SSIM", "ssim", 4, "inverter"),
    ("SSIM, people", "ssim_sensitive", 4, "inverter"),
    ("cosine, people", "feature_cosine_sensitive", 3, ""),
)


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return all variants beside P1's three, the differences to the full system, and the controller."""
    return [_variants(results, setting), _paired(results, setting), _controller(results)]


def _variants(results: Results, setting: Setting) -> ResultTable:
    rows, missing = [], []
    for variant in VARIANTS:
        ours, theirs = [], []
        for _, metric, digits, attacker in _COLUMNS:
            key: dict[str, Any] = {"epsilon_v": EPSILON_V, "attacker": attacker}
            found = estimate(
                results.values(metric, variant.name, **key).values(), results.reason(metric, variant.name, **key)
            )
            missing.append((metric, found))
            ours.append(with_interval(found, digits))
            theirs.append(published.text(published.find("5.8", metric, variant.name), digits))
        rows.append((variant.name.replace("_", "-"), *ours))
        if any(text != "–" for text in theirs):
            rows.append(("  P1 5.8", *theirs))
    heads = ("variant", *(name for name, *_ in _COLUMNS))
    notes = (
        setting.preset.about,
        "ε_v = ε_l = 1. SSIM is the trained inverter's; P1's in 5.8 is its gradient attacker's.",
        *reasons(missing),
    )
    return ResultTable("ablation", "Fixed-budget comparison (P1 Figures 5 to 7)", heads, rows, notes)


def _paired(results: Results, setting: Setting) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for variant in VARIANTS:
        if variant.name == "region_aware":
            continue
        cells = []
        for _, metric, digits, attacker in _COLUMNS:
            pair = (results.values(metric, n, EPSILON_V, attacker=attacker) for n in (variant.name, "region_aware"))
            cells.append((paired(*pair), digits))
        rows.append((variant.name, *cells))
    heads = ("variant less region-aware", *(name for name, *_ in _COLUMNS))
    text, notes = with_tests(heads, rows)
    return ResultTable("ablation-paired", "What each part is worth (paired t-tests over samples)", heads, text, notes)


def _controller(results: Results) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for scenario in results.distinct("condition", mechanism="bcd"):
        pair = [results.values("utility", name, condition=scenario) for name in ("bcd", "without BCD")]
        held = [
            estimate(results.values("constraints_held", name, condition=scenario).values())
            for name in ("bcd", "without BCD")
        ]
        shares = [with_count(item) for item in held]
        cells = [with_interval(estimate(item.values()), 4) for item in pair]
        rows.append((scenario, *cells, (paired(*pair), 4), *shares))
    heads = ("scenario", "U, BCD", "U, even split", "difference", "constraints held", "… even split")
    title = "The controller against an even split of budgets at full power"
    note = "Utilities are means over the points that hold their constraints, the difference over samples where both do."
    text, notes = with_tests(heads, rows)
    return ResultTable("ablation-control", title, heads, text, (note, *notes))


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return P1's three modes: accuracy, SSIM around people and cosine similarity beside the published ones."""
    modes, panels = ("none", "uniform", "region_aware"), []
    shown = (
        ("category_accuracy", "", "semantic category accuracy"),
        ("ssim_sensitive", "inverter", "attack SSIM, people"),
        ("feature_cosine_sensitive", "", "cosine similarity, people"),
    )
    for metric, attacker, label in shown:
        found = [estimate(results.values(metric, m, EPSILON_V, attacker=attacker).values()) for m in modes]
        known = [(place, item) for place, item in enumerate(found) if isinstance(item, Estimate)]
        ours = [item for _, item in known]
        ends = [item.low for item in ours], [item.high for item in ours]
        bars = Series("ours", [place for place, _ in known], [item.mean for item in ours], *ends)
        theirs = [published.find("5.8", metric, m) for m in modes]
        given = [(place, item.value) for place, item in enumerate(theirs) if item is not None]
        paper = Series("P1", [place for place, _ in given], [value for _, value in given], published=True)
        ticks = ("none", "uniform", "region-\naware")
        panels.append(Panel("", "", label, [bars, paper], "bars", ticks, bounds=(-0.05, 1.05)))
    return [Figure("ablation", "Fixed-budget comparison at ε_v = 1 (P1 Figures 5 to 7)", panels, columns=3)]


PROTOCOL = Protocol(NAME, "fixed budgets, one part left out at a time (P1 5.8)", "pictures", units, tables, figures)
