"""Write docs/operating-points.md: ``python -m uav_privacy_sc.control.operating_points docs/operating-points.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from uav_privacy_sc.control.bcd import OperatingPoint, optimize, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy, load_policies, load_policy_values
from uav_privacy_sc.link.channel import LinkConfig, draw_fading

GAINS_DB = range(-10, 31, 2)
FADES = 1000
#: P1 section 5.7: mean utility, transmit power (W), SNR (dB) and location error; None where it gives none.
PAPER_MEANS: dict[str, tuple[float | None, ...]] = {
    "surveillance": (0.6733, None, None, 0.0248),
    "precision": (0.3418, 0.2596, 8.216, 0.0312),
    "resource-limited": (0.2365, 0.0094, -7.184, 0.0584),
}

INTRODUCTION = """\
# Operating points

Written by `python -m uav_privacy_sc.control.operating_points docs/operating-points.md`; a test keeps it up to date.

Gain is in dB above the reference gain, at which one transmitted watt arrives at the power of the noise: it is the SNR
of one watt. The published means of P1 section 5.7 imply about 14 dB (8.216 dB at 0.2596 W, -7.184 dB at 0.0094 W); the
shipped link has {gain:.1f} dB before fading.

Four regimes follow one another as the channel improves. Where even full power and all budget that
locations can spare do not reach `a_min`, the point is infeasible: the least violation is reported and flagged. Then
`a_min` binds and epsilon_v is what it needs. Then all power is spent and the budgets balance, independent of the gain,
until the semantic quality reaches `a_ref`. From there epsilon_v falls to `epsilon_v_min`, which gives locations the
rest, and at last power falls, as more of it buys nothing.
"""

CHOICE = """\
## How our numbers were chosen

P1 leaves out the weights, `a_min`, `a_ref`, `e_max`, `s_c`, the least budgets and the circuit power. Ours are set so
that at the gain which P1's means imply (14 dB) each scenario is in the last regime and uses an eighth to a third of the
power it has, that epsilon_l there is more than a third of epsilon_total, and that the problem is feasible over most of
-10 to 30 dB. `a_ref` asks for 10, 11.5 and 4.5 dB of SNR at `epsilon_v_min`: protected features are mostly noise of
their own, so more SNR buys little. `a_min` is negative in the resource-limited scenario because P1's own means
(-7.184 dB, epsilon_total 3) give a semantic quality below zero there. `scale` is metres across the image. The location
errors that P1 reports with the grid, 0.0248 and 0.0584, need epsilon_l of about 10 and 3.1 by its Eq. 18, more than
epsilon_total, so ours are larger.
"""


def document() -> str:
    """Return the document."""
    policies = load_policies()
    parts = [INTRODUCTION.format(gain=_mean_gain_db())]
    parts += [_scenario(policy) for policy in policies.values()]
    parts += [_over_fading(policies), CHOICE, _policy_values(), _link_values()]
    return "\n".join(parts)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _mean_gain_db() -> float:
    return draw_fading(LinkConfig(fading="none"), np.random.default_rng(0)).gain_db


def _scenario(policy: ScenarioPolicy) -> str:
    header = ("gain dB", "epsilon_v", "epsilon_l", "p_tx W", "SNR dB", "A_sem", "E_loc", "U", "status")
    rows = [[f"{gain}", *_point(optimize_at_db(policy, float(gain)))] for gain in GAINS_DB]
    given = f"epsilon_total {policy.epsilon_total:g}, p_max {policy.p_max:g} W, {policy.location_branch}"
    left = f"{policy.p_available:.3g} W after circuit and processing"
    return f"## {policy.name}\n\n{given}; {left}.\n\n{table(header, rows)}"


def _point(point: OperatingPoint) -> list[str]:
    status = point.status if point.feasible else f"infeasible by {point.violation:.3f}"
    budgets = (f"{point.epsilon_v:.3f}", f"{point.epsilon_l:.3f}", f"{point.p_tx:.4f}", f"{point.snr_db:.1f}")
    return [*budgets, f"{point.semantic_quality:.3f}", f"{point.location_error:.4f}", f"{point.utility:.4f}", status]


def _over_fading(policies: dict[str, ScenarioPolicy]) -> str:
    rng, config = np.random.default_rng(0), LinkConfig()
    states = [draw_fading(config, rng) for _ in range(FADES)]
    rows = []
    for name, policy in policies.items():
        points = [optimize(policy, state.gain, state.noise_power) for state in states]
        columns = np.array([(p.utility, p.p_tx, p.snr_db, p.location_error) for p in points])
        iterations = np.array([len(p.history) for p in points if p.feasible])
        cells = [_beside(ours, paper) for ours, paper in zip(columns.mean(axis=0), PAPER_MEANS[name], strict=True)]
        feasible = np.mean([p.feasible for p in points])
        rows.append([name, *cells, f"{feasible:.1%}", f"{iterations.min()} to {iterations.max()}"])
    header = ("scenario", "U", "p_tx W", "SNR dB", "E_loc", "feasible", "iterations")
    text = f"Means over {FADES} Rayleigh fades of the shipped link; in brackets P1's (section 5.7) where it gives them."
    return f"## Over fading\n\n{text}\n\n{table(header, rows)}"


def _beside(ours: float, paper: float | None) -> str:
    return f"{ours:.4f}" if paper is None else f"{ours:.4f} ({paper:g})"


def _policy_values() -> str:
    scenarios = load_policy_values()
    names = list(dict.fromkeys(key for values in scenarios.values() for key in values))
    rows = []
    for key in names:
        items = [values[key] for values in scenarios.values()]
        notes = "; ".join(dict.fromkeys(item.note for item in items if item.note))
        rows.append([f"`{key}`", *(str(item.value) for item in items), items[0].source, notes])
    return f"## Scenario parameters\n\n{table(('parameter', *scenarios, 'source', 'note'), rows)}"


def _link_values() -> str:
    rows = [
        [
            f"`{item.name}`",
            str(item.default),
            str(item.metadata["unit"]),
            item.metadata["source"],
            item.metadata["about"],
        ]
        for item in LinkConfig.parameters()
    ]
    return f"## Link parameters\n\n{table(('parameter', 'default', 'unit', 'source', 'meaning'), rows)}"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        Path(sys.argv[1]).write_text(document(), encoding="utf-8")
    else:
        print(document(), end="")
