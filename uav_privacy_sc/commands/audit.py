"""``audit``: what samples say about the epsilon of a mechanism, beside what is claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, progress_bar
from uav_privacy_sc.evaluation.headline import delta_text
from uav_privacy_sc.privacy.audit import AuditResult, audit, expected_epsilon, subjects
from uav_privacy_sc.privacy.randomness import RandomStreams

ALL = "all"
#: Two bounds a mechanism may each be wrong once.
_BOUNDS = 2


@dataclass(frozen=True)
class AuditOrder:
    """What to audit. ``confidence`` is that of the whole table: that no sound mechanism in it is accused."""

    mechanisms: Sequence[str] = (ALL,)
    epsilon: float = 1.0
    delta: float = 1e-5
    samples: int = 100_000
    confidence: float = 0.99
    seed: int | None = None
    as_json: bool = False


@dataclass(frozen=True)
class Verdict:
    """A result beside the epsilon that the mechanism really gives: the claim, or more where it is known to break it."""

    result: AuditResult
    real_epsilon: float

    @property
    def lower(self) -> float:
        """The larger of the two bounds."""
        return max(self.result.lower_epsilon, self.result.gaussian_epsilon or 0.0)

    @property
    def word(self) -> str:
        """``holds``, ``broken, as announced``, or ``CLAIM BROKEN``."""
        if self.lower > max(self.real_epsilon, self.result.claimed_epsilon):
            return "CLAIM BROKEN"
        if self.real_epsilon > self.result.claimed_epsilon:
            return "broken, as announced"
        return "holds"

    @property
    def sound(self) -> bool:
        """Whether the mechanism does what is said of it: its claim, or the announced breach of it and no more."""
        return self.lower <= max(self.real_epsilon, self.result.claimed_epsilon)

    def as_dict(self) -> dict[str, Any]:
        """Return everything for machines."""
        found = {"real_epsilon": self.real_epsilon, "holds": self.result.holds, "verdict": self.word}
        return {**asdict(self.result), **found, "sound": self.sound}


def carry_out(order: AuditOrder) -> int:
    """Audit and print; return 1 when a mechanism gives away more than is said of it, else 0.

    Raises:
        ValueError: an unknown mechanism, or a parameter out of its range; one line.
    """
    names = _names(order.mechanisms)
    if not 0.0 < order.confidence < 1.0:
        raise BadInput(f"confidence is {order.confidence}; give a number between 0 and 1")
    each = 1.0 - (1.0 - order.confidence) / (_BOUNDS * len(names))
    streams = RandomStreams(order.seed)
    verdicts = []
    with progress_bar() as bar:
        for name in names:
            task = bar.add_task(name, total=2 * order.samples, note="outputs")
            result = audit(
                name,
                order.epsilon,
                order.delta,
                order.samples,
                each,
                streams,
                lambda done, task=task: bar.advance(task, done),  # type: ignore[misc]
            )
            verdicts.append(Verdict(result, expected_epsilon(name, order.epsilon, order.delta)))
    if order.as_json:
        print_json({"confidence": order.confidence, "audits": [verdict.as_dict() for verdict in verdicts]})
    else:
        _print(order, verdicts)
    return 0 if all(verdict.sound for verdict in verdicts) else 1


def _names(given: Sequence[str]) -> list[str]:
    known = subjects()
    for name in given:
        if name not in (*known, ALL):
            raise BadInput(f"mechanism is {name!r}; choose {ALL} or one of {', '.join(known)}")
    return list(known) if ALL in given else list(dict.fromkeys(given))


def _print(order: AuditOrder, verdicts: list[Verdict]) -> None:
    kinds = "seeded noise (experiment)" if order.seed is not None else "cryptographic noise"
    print_lines(
        [
            ("claim", f"epsilon {order.epsilon:g}, delta {delta_text(order.delta)} for Gaussian mechanisms, else 0"),
            ("samples", f"{order.samples:,} outputs for each of two neighbouring inputs, {kinds}"),
            ("confidence", f"{order.confidence:g} that no bound below lies above the truth"),
            ("bounds", "at least: Clopper-Pearson, any mechanism; Gaussian: from error rates, sharper"),
        ]
    )
    rows = []
    for verdict in verdicts:
        result = verdict.result
        sharp = "–" if result.gaussian_epsilon is None else f"{result.gaussian_epsilon:.3f}"
        numbers = (f"{result.claimed_epsilon:g}", f"{verdict.real_epsilon:.4g}", f"{result.lower_epsilon:.3f}", sharp)
        rows.append((result.mechanism, verdict.word, *numbers))
    print_table(("mechanism", "verdict", "claim", "gives", "at least", "Gaussian"), rows, words=2)
    print_lines([("neighbours", "")])
    print_lines([(f"  {verdict.result.mechanism}", verdict.result.neighbours) for verdict in verdicts])
