"""Why a number of ours differs from P1's: a sentence whose figures and verdicts are computed from the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from uav_privacy_sc.bench.privacy import CHANNELS, GRID, OBJECTS
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.contradictions import PEOPLE, cosine_bound
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.published import PublishedValue
from uav_privacy_sc.evaluation.statistics import Estimate, estimate

NOT_MEASURED = "–"
INSIDE = "P1's value lies inside our interval."


class Measured(Protocol):
    """What sentences are made of: a folder of results (``reproduction.Folder``)."""

    @property
    def manifest(self) -> dict[str, Any]:
        """How it was made."""

    def results(self, protocol: str) -> Results | None:
        """Return a protocol's measurements, None where it was not run."""


def why(found: Measured, item: PublishedValue, ours: Estimate | Missing) -> str:
    """Return why ours differs from a published value; that it does not, where that lies inside our interval."""
    if isinstance(ours, Missing):
        return NOT_MEASURED
    if ours.half_width is not None and ours.low <= item.value <= ours.high:
        return INSIDE
    return _SENTENCES[item.section, item.metric.partition(" at ")[0]](found, item, ours)


def _mean(found: Measured, protocol: str, metric: str, mechanism: str, **key: Any) -> float | None:
    results = found.results(protocol)
    item = Missing("not run") if results is None else estimate(results.values(metric, mechanism, **key).values())
    return None if isinstance(item, Missing) else item.mean


def _number(value: float | None, digits: int = 3) -> str:
    return "nothing measured" if value is None else f"{value:.{digits}f}"


def _accuracy(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    key = {"condition": "with the prior"}
    clear, alone = (_mean(found, "tradeoff", "category_accuracy", name, **key) for name in ("none", "silence"))
    theirs = published.find("5.8", "category_accuracy", "none")
    assert theirs is not None
    return (
        f"Networks and data are ours: {_number(clear)} without noise (P1 {theirs.value:g}), and {_number(alone)} from "
        "descriptors without any features, which P1 does not give."
    )


def _inverted(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    silence = _mean(found, "tradeoff", "ssim_sensitive", "silence", attacker="inverter")
    if silence is None:
        return "Another inverter on other pictures; P1 does not give the level of silence."
    how = "no more than" if ours.low <= silence else "more than"
    return (
        f"Our inverter has {_number(silence)} from silence, for a likely scene resembles any other; ours here is {how} "
        "that. P1 does not give its level of silence."
    )


def _scale(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    return "Weights, A_min, A_ref and E_max are ours, so the scale of U is, too."


def _power(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    snr = _mean(found, "scenarios", "snr_db", "bcd", condition=item.condition)
    theirs = published.find("5.7", "snr_db", "bcd", condition=item.condition)
    p1 = "" if theirs is None else f" (P1 {theirs.value:g} dB)"
    return f"Our A_ref asks for a mean of {_number(snr, 2)} dB{p1}, and P1 gives no gain of its link."


def _snr(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    return "Follows from A_ref, which P1 does not give."


def _place(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    budget = _mean(found, "scenarios", "epsilon_l", "bcd", condition=item.condition)
    return (
        f"The mechanism's error at the ε_l that our controller leaves for places, {_number(budget, 2)} in the mean, "
        "from the object to its release; P1 does not say from where, see the calculation for both readings."
    )


def _gradient(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    preset = found.manifest["setting"]["preset"]
    other = _mean(found, "attackers", item.metric, "another picture", attacker="gradient")
    scale = f"{preset['gradient_steps']} steps at {preset['gradient_pixels']}/16 of the resolution (P1: 300)"
    text = f"Another encoder and other pictures; ours takes {scale}"
    if other is None:
        return f"{text}."
    told = "no evidence that anything was learnt" if ours.low <= other else "more than that here"
    return f"{text}. From another picture's features it has {_number(other, 4)}: {told}."


def _cosine(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    if item.mechanism == "none":
        return "Features without noise are the clean ones."
    bound = cosine_bound(1.0 if item.mechanism == "uniform" else PEOPLE)
    theirs, mine = ("exceeds" if value > bound else "keeps to" for value in (item.value, ours.mean))
    return f"Follows from ε, C and the norm of features: P1's {theirs} what Eq. 15 allows, {bound:.3f}; ours {mine} it."


def _attack(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    key: dict[str, Any] = {"epsilon_v": item.epsilon_v}
    pair = [_mean(found, "attackers", "ssim", item.mechanism, attacker=a, **key) for a in ("inverter", "gradient")]
    theirs = [published.find("Table 3", "ssim", item.mechanism, attacker=a, **key) for a in ("inverter", "gradient")]
    text = "Another encoder, inverter and pictures"
    if pair[0] is None or pair[1] is None or theirs[0] is None or theirs[1] is None:
        return f"{text}."
    same = (pair[0] > pair[1]) == (theirs[0].value > theirs[1].value)
    return f"{text}; which attacker is the stronger is {'the same in both' if same else 'the other way round in P1'}."


def _brightness(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    text = "PSNR around people depends on how bright the pictures are"
    base = "uniform" if item.mechanism == "region_aware" else "none"
    if item.mechanism == "none":
        return f"{text}, and these are others."
    level = item.epsilon_v if base == "uniform" else None
    other = _mean(found, "attackers", "psnr_sensitive", base, epsilon_v=level, attacker=item.attacker)
    theirs = published.find("Table 3", "psnr_sensitive", base, epsilon_v=level, attacker=item.attacker)
    if other is None or theirs is None:
        return f"{text}."
    name = "uniform noise" if base == "uniform" else "no protection"
    return f"{text}; against {name} it is {ours.mean - other:+.2f} dB (P1 {item.value - theirs.value:+.2f})."


def _gain(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    first, sixth = (f"utility at iteration {number}" for number in (1, 6))
    mine = [_mean(found, "convergence", name, "bcd", condition=item.condition) for name in (first, sixth)]
    theirs = [published.find("5.9", name, "bcd", condition=item.condition) for name in (first, sixth)]
    assert theirs[0] is not None and theirs[1] is not None
    gained = "nothing measured" if mine[0] is None or mine[1] is None else f"{mine[1] - mine[0]:.4f}"
    published_gain = theirs[1].value - theirs[0].value
    return f"The scale of U is ours. From iteration 1 to 6 ours gains {gained}, P1's {published_gain:.4f}."


def _time(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    results = found.results("runtime")
    text = "Another machine, and P1 does not give its tensor's size"
    bases = [] if results is None else results.distinct("condition", metric="ratio", mechanism=item.mechanism)
    if not bases:
        return f"{text}."
    ratio = _mean(found, "runtime", "ratio", item.mechanism, condition=bases[0])
    return f"{text}; ours is {_number(ratio, 2)} times {bases[0].removeprefix('ratio to ')}."


def _memory(found: Measured, item: PublishedValue, ours: Estimate) -> str:
    size = "x".join(map(str, (CHANNELS, *GRID)))
    alone = CHANNELS * GRID[0] * GRID[1] * 4 / 1e3
    return (
        f"By tracemalloc, results included, for {size} features (as float32 {alone:.1f} KB by themselves) and "
        f"{OBJECTS} objects; P1 gives no size."
    )


_SENTENCES: dict[tuple[str, str], Callable[[Measured, PublishedValue, Estimate], str]] = {
    ("5.6", "category_accuracy"): _accuracy,
    ("5.6", "ssim_sensitive"): _inverted,
    ("5.7", "utility"): _scale,
    ("5.7", "p_tx"): _power,
    ("5.7", "snr_db"): _snr,
    ("5.7", "location_error"): _place,
    ("5.8", "category_accuracy"): _accuracy,
    ("5.8", "ssim_sensitive"): _gradient,
    ("5.8", "ssim"): _gradient,
    ("5.8", "feature_cosine_sensitive"): _cosine,
    ("Table 3", "ssim"): _attack,
    ("Table 3", "psnr_sensitive"): _brightness,
    ("5.9", "utility"): _gain,
    ("Table 4", "time_ms"): _time,
    ("Table 4", "memory_kb"): _memory,
}
