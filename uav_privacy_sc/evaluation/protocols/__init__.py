"""The protocols, one a file, by name. A further one joins :data:`MODULES`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uav_privacy_sc.evaluation.protocols.protocol import Protocol

#: In the order in which ``all`` runs them.
MODULES = ("tradeoff", "scenarios", "ablation", "attackers", "baseline", "convergence", "location", "runtime", "matrix")


def find_protocol(name: str) -> Protocol:
    """Return a protocol by name; the others are not imported.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in MODULES:
        raise ValueError(f"protocol is {name!r}; choose one of {', '.join(MODULES)}")
    found: Protocol = importlib.import_module(f"{__name__}.{name}").PROTOCOL
    return found
