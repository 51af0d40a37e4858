"""What a protocol is, and the results that it turns into tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.result_tables import ResultTable
from uav_privacy_sc.evaluation.setting import SampleStore, Setting


@dataclass(frozen=True)
class Protocol:
    """A protocol by name.

    Attributes:
        name, about: what it is, for people.
        needs: ``pictures``, ``boxes`` (pictures will do) or ``nothing``.
        units: the work, in pieces.
        tables, figures: what is made of all measurements.
        gallery: pictures beside them, made of a few samples.
        serial: whether it must be alone on the machine, because it takes times.
    """

    name: str
    about: str
    needs: str
    units: Callable[[Setting, SampleStore], Iterator[Unit]]
    tables: Callable[[Results, Setting], Sequence[ResultTable]]
    figures: Callable[[Results, Setting], Sequence[Figure]]
    gallery: Callable[[Setting, SampleStore], Sequence[Figure]] | None = None
    serial: bool = False

    def refusal(self, kind: str) -> str | None:
        """Return why it cannot run on a dataset of this kind, None where it can."""
        if self.needs == "pictures" and kind != "pictures":
            return f"protocol {self.name} needs pictures, and the dataset has boxes only; use location or scenarios"
        return None
