"""P3's experiments: the curves of Fig. 2, and the sweeps of Figs. 3 and 4 around them.

Where P3 gives no number (rounds, G, the uneven noise of Fig. 3, its test set), the presets say ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from uav_privacy_sc.fleet.learning import TrainingConfig
from uav_privacy_sc.fleet.model import SMALL, AutoencoderConfig
from uav_privacy_sc.fleet.setting import FEDAVG, FEDSFR, Method

CURVES, SIGMA, UNEVEN, THRESHOLD, ALL = "curves", "sigma", "uneven", "threshold", "all"
FIGURES = (CURVES, SIGMA, UNEVEN, THRESHOLD)
#: Noise of Fig. 2 (c), ten times that of Fig. 2 (b); a tenth shows the other side.
SIGMA_FACTORS = (0.1, 10.0)
#: Fig. 3 (a), (b): factor on sigma_1; sigma_2 follows, so that Theorem 1's epsilon, 2/sigma_1 + 1/sigma_2, stays.
UNEVEN_FACTORS = (0.75, 2.0)
THRESHOLDS = (0.11, 0.19)
#: Fig. 3 (c): SNR of the test, in dB.
TEST_SNRS = (0.0, 5.0, 10.0, 15.0, 20.0, 25.0)


@dataclass(frozen=True)
class Preset:
    """How much is done. ``pictures`` are rendered where no folder is given, over so many ``places``."""

    name: str
    about: str
    clients: int
    per_round: int
    rounds: int
    pictures: int
    places: int
    model: AutoencoderConfig
    client: TrainingConfig
    server: TrainingConfig
    bound: float
    figures: tuple[str, ...]


PRESETS = {
    "smoke": Preset(
        "smoke",
        "ten rounds with a small model: shows that all works, not what P3 finds",
        clients=10,
        per_round=5,
        rounds=10,
        pictures=1000,
        places=2,
        model=SMALL,
        client=TrainingConfig(rate=0.01),
        server=TrainingConfig(rate=0.001),
        bound=300.0,
        figures=(CURVES,),
    ),
    "paper": Preset(
        "paper",
        "P3's: K = 50, 20 a round, 0.32 M parameters; 200 rounds and G are ours",
        clients=50,
        per_round=20,
        rounds=200,
        pictures=12000,
        places=8,
        model=AutoencoderConfig(),
        client=TrainingConfig(rate=0.01),
        server=TrainingConfig(rate=0.001),
        bound=3000.0,
        figures=FIGURES,
    ),
}


def preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        ValueError: there is none.
    """
    if name not in PRESETS:
        raise ValueError(f"preset is {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def methods(figures: Sequence[str], base: Method) -> tuple[Method, ...]:
    """Return what is to be run for figures; ``base`` gives noise, bound and threshold. The five curves come first.

    Raises:
        ValueError: no such figure.
    """
    for name in figures:
        if name not in (*FIGURES, ALL):
            raise ValueError(f"figure is {name!r}; choose one of {', '.join((*FIGURES, ALL))}")
    wanted = FIGURES if ALL in figures else figures
    found = list(curves(base))
    for name, sweep in ((SIGMA, sigma_sweep), (UNEVEN, uneven_sweep), (THRESHOLD, threshold_sweep)):
        if name in wanted:
            found += sweep(base)
    return tuple(found)


def curves(base: Method) -> tuple[Method, ...]:
    """Return the five curves of Fig. 2. FedSFR+OL has the noise of "power" (P3 does not say)."""
    fedavg = replace(base, algorithm=FEDAVG, selection=False, ideal=False, feature_noise=1.0)
    fedsfr = replace(base, algorithm=FEDSFR, selection=True, ideal=False, feature_noise=1.0)
    return (
        replace(fedavg, name="fedavg", title="FedAvg+OL"),
        replace(fedavg, name="fedavg-ideal", title="FedAvg+OL (ideal)", ideal=True),
        replace(fedsfr, name="fedsfr", title="FedSFR+OL", selection=False),
        replace(fedsfr, name="fedsfr-ms-privacy", title="FedSFR+OL+MS (privacy)", feature_noise=0.5),
        replace(fedsfr, name="fedsfr-ms-power", title="FedSFR+OL+MS (power)"),
    )


def sigma_sweep(base: Method) -> tuple[Method, ...]:
    """Return FedAvg+OL (ideal) and both FedSFR+OL+MS under other noise, sigma_1 and sigma_2 alike."""
    _, ideal, _, privacy, power = curves(base)
    return tuple(
        _other(each, f"sigma-{factor:g}", f"σ x {factor:g}", factor, factor)
        for factor in SIGMA_FACTORS
        for each in (ideal, privacy, power)
    )


def uneven_sweep(base: Method) -> tuple[Method, ...]:
    """Return FedAvg+OL (ideal) and FedSFR+OL+MS (privacy) under uneven noise of the same epsilon by Theorem 1."""
    _, ideal, _, privacy, _ = curves(base)
    total = 2 / base.sigma_1 + 1 / base.sigma_2
    found = []
    for factor in UNEVEN_FACTORS:
        second = 1 / (total - 2 / (factor * base.sigma_1)) / base.sigma_2
        for each in (ideal, privacy):
            found.append(_other(each, f"uneven-{factor:g}", f"σ₁ x {factor:g}, σ₂ x {second:.3g}", factor, second))
    return tuple(found)


def threshold_sweep(base: Method) -> tuple[Method, ...]:
    """Return FedSFR+OL+MS (privacy) with other thresholds S_th/N."""
    privacy = curves(base)[3]
    return tuple(
        replace(privacy, name=f"threshold-{value:g}", title=f"S_th/N = {value:g}", threshold=value)
        for value in THRESHOLDS
    )


def _other(each: Method, suffix: str, words: str, first: float, second: float) -> Method:
    return replace(
        each,
        name=f"{each.name}-{suffix}",
        title=f"{each.title}, {words}",
        sigma_1=each.sigma_1 * first,
        sigma_2=each.sigma_2 * second,
    )
