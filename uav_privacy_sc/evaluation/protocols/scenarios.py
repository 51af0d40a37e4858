"""Operating points of the three scenarios over fading (P1 5.7), and what they mean for places and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from uav_privacy_sc import scene
from uav_privacy_sc.control.bcd import OperatingPoint, optimize
from uav_privacy_sc.control.policy import ScenarioPolicy, load_policies
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Measurement, Results
from uav_privacy_sc.evaluation.messages import About, protect, score_mask, score_picture, transmit
from uav_privacy_sc.evaluation.metrics import INFEASIBLE, Missing
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.profiles import protection_config
from uav_privacy_sc.evaluation.protocols.location import NO_OBJECTS, displacement
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import Cell, ResultTable, reasons, with_count, with_interval, with_tests
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate, paired
from uav_privacy_sc.link.channel import BlockState, LinkConfig
from uav_privacy_sc.pipeline import LinkStage
from uav_privacy_sc.release import Budgets

NAME = "scenarios"
NO_PICTURE = "the dataset has boxes only"
OPERATING = ("utility", "epsilon_v", "epsilon_l", "p_tx", "snr_db", "location_error_expected", "semantic_quality")
PICTURES = ("category_accuracy", "object_accuracy", "miou", "ssim", "psnr", "ssim_sensitive", "psnr_sensitive")


def units(setting: Setting, store: SampleStore) -> Iterator[Unit]:
    """Yield one unit a sample."""
    for sample in store:
        yield Unit(sample.name, partial(measure, sample, setting))


def measure(sample: Sample, setting: Setting) -> list[Measurement]:
    """Return the operating point of every scenario at the sample's fades, and what it does to the sample."""
    found: list[Measurement] = []
    for seed in range(setting.seeds):
        state = _block(setting, sample, seed)
        for name, policy in load_policies().items():
            point = optimize(policy, state.gain, state.noise_power)
            about = About(NAME, setting, sample, seed, mechanism="bcd", condition=name)
            found += _operating(about, point)
            found.append(about.row("location_error", _location_error(about, point, policy)))
            found += _pictures(about, point, policy)
    return found


def _block(setting: Setting, sample: Sample, seed: int) -> BlockState:
    """Return the block that the sample's transmission meets: that of :func:`messages.transmit`."""
    rngs = (setting.rng("ground", sample.name, seed), setting.rng("eavesdropper", sample.name, seed))
    return BlockState.from_gain_db(LinkStage(LinkConfig(), *rngs).gain_db)


def _operating(about: About, point: OperatingPoint) -> Iterator[Measurement]:
    values = {name: getattr(point, name, None) for name in OPERATING} | {
        "location_error_expected": point.location_error
    }
    for name, value in values.items():
        score = float(value) if value is not None else Missing("not given")
        yield about.row(name, score if point.feasible else Missing(INFEASIBLE))
    yield about.row("feasible", float(point.feasible))


def _location_error(about: About, point: OperatingPoint, policy: ScenarioPolicy) -> float | Missing:
    centers = scene.centers(about.sample.boxes)
    if not point.feasible:
        return Missing(INFEASIBLE)
    if not len(centers):
        return Missing(NO_OBJECTS)
    rng = about.setting.rng(f"places {policy.name}", about.sample.name, about.seed)
    return displacement(centers, policy.location_branch, point.epsilon_l, rng)


def _pictures(about: About, point: OperatingPoint, policy: ScenarioPolicy) -> Iterator[Measurement]:
    sample, setting = about.sample, about.setting
    if sample.features is None or not point.feasible:
        reason = NO_PICTURE if sample.features is None else INFEASIBLE
        yield from (about.row(name, Missing(reason)) for name in PICTURES)
        return
    budgets = Budgets.from_point(point, policy)
    release = protect(sample, protection_config(setting.profile), budgets, setting.noise_seed(sample.name, about.seed))
    heard = transmit(release, point.p_tx, setting, sample, about.seed).ground
    networks = networks_for(setting.networks)
    yield from score_mask(about, networks.decoder(heard.heard, heard.prior))
    for row in score_picture(about, networks.inverters["inverter"](release.features)):
        yield replace(row, attacker="")


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return the means of every scenario beside P1's, and the differences between scenarios."""
    return [_means(results, setting), _differences(results, setting)]


_COLUMNS = (
    ("U", "utility", 4),
    ("p_tx (W)", "p_tx", 4),
    ("SNR (dB)", "snr_db", 2),
    ("E_loc, measured", "location_error", 4),
    ("ε_v", "epsilon_v", 2),
    ("ε_l", "epsilon_l", 2),
    ("accuracy", "category_accuracy", 3),
    ("SSIM, people", "ssim_sensitive", 3),
)


def _means(results: Results, setting: Setting) -> ResultTable:
    rows, missing = [], []
    for scenario in results.distinct("condition"):
        ours, theirs = [], []
        for _, metric, digits in _COLUMNS:
            reason = results.reason(metric, "bcd", condition=scenario)
            found = estimate(results.values(metric, "bcd", condition=scenario).values(), reason)
            missing.append((metric, found))
            ours.append(with_interval(found, digits))
            theirs.append(published.text(published.find("5.7", metric, "bcd", condition=scenario), digits))
        feasible = estimate(results.values("feasible", "bcd", condition=scenario).values())
        rows += [(scenario, *ours, with_count(feasible)), ("  P1 5.7", *theirs, "–")]
    heads = ("scenario", *(name for name, *_ in _COLUMNS), "feasible")
    notes = (
        setting.preset.about,
        "Places are displaced by the released budgets, features by the profile's mechanism. Means are over feasible "
        "points alone; an infeasible one is in none of them.",
    )
    return ResultTable("scenarios", "Scenarios over fading (P1 Figure 4)", heads, rows, (*notes, *reasons(missing)))


def _differences(results: Results, setting: Setting) -> ResultTable:
    names, rows = results.distinct("condition"), list[tuple[Cell, ...]]()
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            cells = []
            for _, metric, digits in _COLUMNS[:4]:
                pair = (results.values(metric, "bcd", condition=name) for name in (first, second))
                cells.append((paired(*pair), digits))
            rows.append((f"{first} less {second}", *cells))
    heads = ("", *(name for name, *_ in _COLUMNS[:4]))
    text, notes = with_tests(heads, rows)
    return ResultTable("scenarios-paired", "Differences at equal fades (paired t-tests)", heads, text, notes)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return bars of utility, power, SNR and location error beside P1's."""
    names, panels = results.distinct("condition"), []
    labels = ("utility", "transmit power (W)", "SNR at the ground (dB)", "location error (image sides)")
    for (_, metric, _), label in zip(_COLUMNS[:4], labels, strict=True):
        items = [estimate(results.values(metric, "bcd", condition=name).values()) for name in names]
        known = [(place, item) for place, item in enumerate(items) if isinstance(item, Estimate)]
        ours = [item for _, item in known]
        bars = Series(
            "ours",
            [place for place, _ in known],
            [item.mean for item in ours],
            [item.low for item in ours],
            [item.high for item in ours],
        )
        theirs = [published.find("5.7", metric, "bcd", condition=name) for name in names]
        given = [(place, item.value) for place, item in enumerate(theirs) if item is not None]
        paper = Series("P1", [place for place, _ in given], [value for _, value in given], published=True)
        ticks = [name.replace("resource-", "resource-\n") for name in names]
        panels.append(Panel("", "", label, [bars, paper], "bars", ticks))
    return [Figure("scenarios", "Scenarios over fading (P1 Figure 4)", panels)]


PROTOCOL = Protocol(NAME, "operating points of the scenarios over fading (P1 5.7)", "boxes", units, tables, figures)
