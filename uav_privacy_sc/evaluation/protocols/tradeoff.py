"""P1's privacy-utility trade-off (5.6), to where physics speaks: what ground and eavesdropper get at each budget.

Uniform and region-aware noise, the latter with several background factors, meet the same samples, fades and noise
seeds. They are compared at equal epsilon and at equal success of an attacker: at the epsilon at which each lets the
attacker have the same mean SSIM inside sensitive boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from uav_privacy_sc import scene
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
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.profiles import protection_config, varied
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import Cell, ResultTable, reasons, with_interval, with_tests
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.evaluation.statistics import Estimate, PairedTest, crossing, estimate, paired, rising
from uav_privacy_sc.release import Budgets

NAME = "tradeoff"
WITH, WITHOUT = "with the prior", "without the prior"
INVERTERS = ("inverter", "inverter_adaptive")


@dataclass(frozen=True)
class Curve:
    """A mechanism whose budget is swept, with its background factor where it has one."""

    mechanism: str
    kappa_bg: float | None = None

    @property
    def name(self) -> str:
        """What tables call it."""
        return "uniform" if self.kappa_bg is None else f"region-aware, κ_bg {self.kappa_bg:g}"


def curves(setting: Setting) -> list[Curve]:
    """Return the mechanisms of the sweep."""
    return [Curve("uniform"), *(Curve("region_aware", kappa) for kappa in setting.preset.kappas)]


def units(setting: Setting, store: SampleStore) -> Iterator[Unit]:
    """Yield one unit a sample."""
    for sample in store:
        yield Unit(sample.name, partial(measure, sample, setting))


def measure(sample: Sample, setting: Setting) -> list[Measurement]:
    """Return everything about one sample."""
    found: list[Measurement] = []
    for seed in range(setting.seeds):
        about = About(NAME, setting, sample, seed, epsilon_l=EPSILON_L)
        found += _case(about.but(mechanism="none"))
        found += _floors(about)
        for curve in curves(setting):
            for epsilon in setting.preset.epsilons:
                found += _case(about.but(mechanism=curve.mechanism, kappa_bg=curve.kappa_bg, epsilon_v=epsilon))
    return found


def _case(about: About) -> Iterator[Measurement]:
    setting, sample = about.setting, about.sample
    config = varied(protection_config(setting.profile), about.mechanism, about.kappa_bg)
    budgets = Budgets(about.epsilon_v or 1.0, EPSILON_L, P_TX)
    release = protect(sample, config, budgets, setting.noise_seed(sample.name, about.seed))
    heard = transmit(release, P_TX, setting, sample, about.seed).ground
    networks = networks_for(setting.networks)
    for condition, prior in ((WITH, heard.prior), (WITHOUT, scene.no_objects())):
        yield from score_mask(about.but(condition=condition), networks.decoder(heard.heard, prior))
    yield from score_features(about, release.features)
    for name, inverter in networks.inverters.items():
        yield from score_picture(about.but(attacker=name), inverter(release.features))


def _floors(about: About) -> Iterator[Measurement]:
    """What both parties have without any features: the ground from descriptors alone, the eavesdropper from silence."""
    sample, setting = about.sample, about.setting
    assert sample.features is not None
    networks, silence = networks_for(setting.networks), np.zeros_like(sample.features)
    config = varied(protection_config(setting.profile), "uniform")
    release = protect(sample, config, Budgets(1.0, EPSILON_L, P_TX), setting.noise_seed(sample.name, about.seed))
    yield from score_mask(about.but(mechanism="silence", condition=WITH), networks.decoder(silence, release.objects))
    for name, inverter in networks.inverters.items():
        yield from score_picture(about.but(mechanism="silence", attacker=name), inverter(silence))


# What is made of it


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return the sweep, the comparison at equal epsilon, and that at equal success of each attacker."""
    found = [_sweep(results, setting), _equal_epsilon(results, setting)]
    found += [_equal_success(results, setting, attacker) for attacker in _attackers(results)]
    return found


def _attackers(results: Results) -> list[str]:
    return [name for name in INVERTERS if name in results.distinct("attacker")]


def _sweep(results: Results, setting: Setting) -> ResultTable:
    heads = (
        *("mechanism", "ε_v", "accuracy, prior", "accuracy, no prior", "mIoU, prior", "SSIM", "SSIM, people"),
        *("PSNR people (dB)", "P1 accuracy", "P1 SSIM, people"),
    )
    missing: list[tuple[str, Estimate | Missing]] = []
    rows = [_sweep_row(results, name, key, missing) for name, *key in _all_cases(setting)]
    notes = (
        setting.preset.about,
        f"Means over {len(results.distinct('sample'))} samples ± 95 % intervals by Student's t; seeds are averaged "
        "within a sample. SSIM and PSNR are the plain inverter's; P1 does not say which attacker its 5.6 measures.",
        *reasons(missing),
    )
    return ResultTable("tradeoff", "Privacy-utility trade-off (P1 Figure 3)", heads, rows, notes, words=2)


def _all_cases(setting: Setting) -> list[tuple[str, str, float | None, float | None]]:
    cases: list[tuple[str, str, float | None, float | None]] = [
        ("no protection", "none", None, None),
        ("no features at all", "silence", None, None),
    ]
    for curve in curves(setting):
        cases += [(curve.name, curve.mechanism, epsilon, curve.kappa_bg) for epsilon in setting.preset.epsilons]
    return cases


def _sweep_row(
    results: Results, name: str, key: list[Any], missing: list[tuple[str, Estimate | Missing]]
) -> tuple[str, ...]:
    mechanism, epsilon, kappa = key

    def cell(metric: str, digits: int = 3, **more: str) -> str:
        values = results.values(metric, mechanism, epsilon, kappa, **more).values()
        found = estimate(values, results.reason(metric, mechanism, epsilon, kappa, **more))
        missing.append((" ".join((metric, *more.values())), found))
        return with_interval(found, digits)

    paper = kappa in (None, 1.12) and mechanism in ("uniform", "region_aware")
    theirs = [
        published.text(published.find("5.6", metric, mechanism, epsilon_v=epsilon) if paper else None)
        for metric in ("category_accuracy", "ssim_sensitive")
    ]
    return (
        name,
        "–" if epsilon is None else f"{epsilon:g}",
        cell("category_accuracy", condition=WITH),
        cell("category_accuracy", condition=WITHOUT),
        cell("miou", condition=WITH),
        cell("ssim", attacker="inverter"),
        cell("ssim_sensitive", attacker="inverter"),
        cell("psnr_sensitive", 2, attacker="inverter"),
        *theirs,
    )


def _equal_epsilon(results: Results, setting: Setting) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for curve in curves(setting)[1:]:
        for epsilon in setting.preset.epsilons:
            cells = []
            for metric, more in _COMPARED:
                ours = results.values(metric, curve.mechanism, epsilon, curve.kappa_bg, **more)
                cells.append((paired(ours, results.values(metric, "uniform", epsilon, **more)), 3))
            rows.append((curve.name, f"{epsilon:g}", *cells))
    title = "Region-aware less uniform at equal ε_v (paired t-tests over samples)"
    heads = ("mechanism", "ε_v", "accuracy, prior", "accuracy, no prior", "SSIM", "SSIM, people", "PSNR people (dB)")
    text, notes = with_tests(heads, rows)
    return ResultTable("tradeoff-equal-epsilon", title, heads, text, (setting.preset.about, *notes), words=2)


_COMPARED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("category_accuracy", {"condition": WITH}),
    ("category_accuracy", {"condition": WITHOUT}),
    ("ssim", {"attacker": "inverter"}),
    ("ssim_sensitive", {"attacker": "inverter"}),
    ("psnr_sensitive", {"attacker": "inverter"}),
)


@dataclass(frozen=True)
class EqualSuccess:
    """A comparison with uniform noise at one level of an attacker's success."""

    curve: Curve
    level: float
    epsilon_uniform: float | None
    epsilon: float | None
    tests: dict[str, PairedTest | Missing]


def equal_success(results: Results, setting: Setting, attacker: str) -> list[EqualSuccess]:
    """Return region-aware against uniform noise where both give the attacker the same mean SSIM around people.

    The levels are a quarter, a half and three quarters of the way from the lowest to the highest mean that this
    mechanism and uniform noise both reach within the sweep. The epsilon of either comes from its mean curve (made
    rising, linear in log epsilon), and the accuracy of every sample from its own curve at that epsilon.
    """
    uniform, found = _mean_curve(results, setting, attacker, Curve("uniform")), []
    for curve in curves(setting)[1:]:
        mean = _mean_curve(results, setting, attacker, curve)
        if uniform is None or mean is None:
            continue
        low, high = max(rising(uniform)[0], rising(mean)[0]), min(rising(uniform)[-1], rising(mean)[-1])
        levels = [low + part * (high - low) for part in (0.25, 0.5, 0.75)] if high > low else []
        found += [_at_level(results, setting, attacker, curve, level) for level in levels]
    return found


def _at_level(results: Results, setting: Setting, attacker: str, curve: Curve, level: float) -> EqualSuccess:
    uniform = Curve("uniform")
    epsilons = [_epsilon_at(results, setting, attacker, each, level) for each in (uniform, curve)]
    tests: dict[str, PairedTest | Missing] = {}
    for condition in (WITH, WITHOUT):
        if None in epsilons:
            tests[condition] = Missing("a mechanism does not reach this level within the sweep")
            continue
        first, second = (
            _accuracy_at(results, setting, each, float(epsilon or 0.0), condition)
            for each, epsilon in zip((curve, uniform), reversed(epsilons), strict=True)
        )
        tests[condition] = paired(first, second)
    return EqualSuccess(curve, level, epsilons[0], epsilons[1], tests)


def _epsilon_at(results: Results, setting: Setting, attacker: str, curve: Curve, level: float) -> float | None:
    means = _mean_curve(results, setting, attacker, curve)
    return None if means is None else crossing(np.array(setting.preset.epsilons), np.array(means), level)


def _mean_curve(results: Results, setting: Setting, attacker: str, curve: Curve) -> list[float] | None:
    """Return the attacker's mean SSIM around people at every budget, None where a budget has none."""
    means = []
    for epsilon in setting.preset.epsilons:
        values = results.values("ssim_sensitive", curve.mechanism, epsilon, curve.kappa_bg, attacker=attacker)
        mean = estimate(values.values())
        if isinstance(mean, Missing):
            return None
        means.append(mean.mean)
    return means


def _accuracy_at(results: Results, setting: Setting, curve: Curve, epsilon: float, condition: str) -> dict[str, float]:
    grid = np.log(setting.preset.epsilons)
    columns = [
        results.values("category_accuracy", curve.mechanism, each, curve.kappa_bg, condition=condition)
        for each in setting.preset.epsilons
    ]
    samples = [name for name in columns[0] if all(name in column for column in columns)]
    return {name: float(np.interp(np.log(epsilon), grid, [column[name] for column in columns])) for name in samples}


def _equal_success(results: Results, setting: Setting, attacker: str) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for item in equal_success(results, setting, attacker):
        epsilons = ("–" if each is None else f"{each:.3g}" for each in (item.epsilon, item.epsilon_uniform))
        rows.append((item.curve.name, f"{item.level:.3f}", *epsilons, *((test, 3) for test in item.tests.values())))
    heads = ("mechanism", "SSIM, people", "its ε_v", "uniform's ε_v", "accuracy, prior", "accuracy, no prior")
    title = f"Region-aware less uniform where the {attacker} has the same SSIM around people"
    name = "tradeoff-equal-success" + ("-adaptive" if "adaptive" in attacker else "")
    text, notes = with_tests(heads, rows)
    compared = {row[0] for row in rows}
    lost = [curve.name for curve in curves(setting)[1:] if curve.name not in compared]
    why = "no level of SSIM around people that it and uniform noise both reach within the sweep"
    notes = (setting.preset.about, *notes, *(f"{each}: {why}" for each in lost))
    return ResultTable(name, title, heads, text, notes, words=1)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return accuracy and the attackers' success over epsilon, and one over the other."""
    panels = [
        _over_epsilon(results, setting, "Ground, with descriptors", "category_accuracy", condition=WITH),
        _over_epsilon(results, setting, "Ground, features alone", "category_accuracy", condition=WITHOUT),
        _over_epsilon(results, setting, "Eavesdropper (inverter), whole", "ssim", attacker="inverter"),
        _over_epsilon(results, setting, "Eavesdropper (inverter), people", "ssim_sensitive", attacker="inverter"),
    ]
    frontier = [_frontier(results, setting, attacker) for attacker in _attackers(results)]
    return [
        Figure("tradeoff", "What ground and eavesdropper get at each visual budget", panels),
        Figure("frontier", "Privacy-utility frontier (P1 Figure 3)", frontier),
    ]


_LABELS = {
    "category_accuracy": "semantic category accuracy",
    "ssim": "attack SSIM, whole picture",
    "ssim_sensitive": "attack SSIM inside sensitive boxes",
}


def _over_epsilon(results: Results, setting: Setting, title: str, metric: str, **more: Any) -> Panel:
    series = []
    for number, curve in enumerate(curves(setting)):
        found = [
            (epsilon, estimate(results.values(metric, curve.mechanism, epsilon, curve.kappa_bg, **more).values()))
            for epsilon in setting.preset.epsilons
        ]
        known = [(epsilon, item) for epsilon, item in found if isinstance(item, Estimate)]
        series.append(_series(curve.name, [epsilon for epsilon, _ in known], [item for _, item in known], number))
    for mechanism in ("region_aware", "uniform"):
        items = [
            item
            for epsilon in (1.0, 3.0)
            if (item := published.find("5.6", metric, mechanism, epsilon_v=epsilon)) is not None
        ]
        if items and more.get("condition", WITH) == WITH:
            name = "P1, region-aware and uniform"
            x, y = [item.epsilon_v or 0.0 for item in items], [item.value for item in items]
            series.append(Series(name, x, y, published=True))
    ends = [(name, estimate(results.values(metric, key, **more).values())) for name, key in _ENDS]
    flat = [(name, item.mean) for name, item in ends if isinstance(item, Estimate)]
    return Panel(title, "visual budget ε_v", _LABELS[metric], series, log_x=True, flat=flat, bounds=(0.0, 1.0))


_ENDS = (("no protection", "none"), ("no features", "silence"))


def _series(name: str, x: list[float], items: list[Estimate], number: int) -> Series:
    lows, highs = [item.low for item in items], [item.high for item in items]
    return Series(name, x, [item.mean for item in items], lows, highs, colour=number)


def _frontier(results: Results, setting: Setting, attacker: str) -> Panel:
    series = []
    for number, curve in enumerate(curves(setting)):
        x, y = [], []
        for epsilon in setting.preset.epsilons:
            key = (curve.mechanism, epsilon, curve.kappa_bg)
            leaked = estimate(results.values("ssim_sensitive", *key, attacker=attacker).values())
            useful = estimate(results.values("category_accuracy", *key, condition=WITHOUT).values())
            if isinstance(leaked, Estimate) and isinstance(useful, Estimate):
                x.append(leaked.mean)
                y.append(useful.mean)
        series.append(Series(curve.name, x, y, colour=number))
    label = "category accuracy, features alone"
    return Panel(f"against the {attacker}", "attack SSIM inside sensitive boxes", label, series)


def gallery(setting: Setting, store: SampleStore) -> list[Figure]:
    """Return pictures of three samples under no protection, uniform and region-aware noise (P1 Figures 9 and 10)."""
    from uav_privacy_sc.evaluation.gallery import tradeoff_gallery

    return tradeoff_gallery(setting, store)


PROTOCOL = Protocol(
    NAME, "accuracy and attackers over the visual budget (P1 5.6)", "pictures", units, tables, figures, gallery
)
