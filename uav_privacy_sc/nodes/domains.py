"""DDS domains of one's own: flights side by side on one computer must not hear each other.

A participant listens on UDP ports that its domain fixes (RTPS 2.5, section 9.6.2), so whether anybody on this computer
is in a domain shows in its ports, at once and without joining it.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

#: Domains whose ports lie below the range that Linux gives to other sockets.
DOMAIN_IDS = range(1, 101)
_PORT_BASE, _DOMAIN_GAIN = 7400, 250
#: Ports of participants within those of a domain; the last is the 120th's, and who holds it has reserved the domain.
_PARTICIPANTS, _RESERVATION = range(10, 249), 249


@contextmanager
def reserved_domains(count: int, among: Sequence[int] = DOMAIN_IDS) -> Iterator[list[int]]:
    """Yield ``count`` domains in random order that nobody on this computer is in; they stay reserved until the end.

    Raises:
        RuntimeError: there are not so many.
    """
    with ExitStack() as held:
        found: list[int] = []
        for domain_id in random.SystemRandom().sample(among, len(among)):
            if len(found) == count:
                break
            reservation = _reserve(domain_id)
            if reservation is not None:
                held.callback(reservation.close)
                found.append(domain_id)
        if len(found) < count:
            raise RuntimeError(f"only {len(found)} of {len(among)} DDS domains are free on this computer, not {count}")
        yield found


def _reserve(domain_id: int) -> socket.socket | None:
    first = _PORT_BASE + _DOMAIN_GAIN * domain_id
    reservation = _bind(first + _RESERVATION)
    if reservation is None:
        return None
    for place in _PARTICIPANTS:
        probe = _bind(first + place)
        if probe is None:
            reservation.close()
            return None
        probe.close()
    return reservation


def _bind(port: int) -> socket.socket | None:
    candidate = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        candidate.bind(("127.0.0.1", port))
    except OSError:
        candidate.close()
        return None
    return candidate
