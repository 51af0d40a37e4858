"""Which networks perceive, told once by checksum: perception to protection, whose record then says so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from uav_privacy_sc.nodes.conversion import MalformedMessage

TOPIC = "semantic/networks"
NAMES = ("detector_sha256", "codec_sha256")
#: Nothing but a checksum gets into a record this way.
_SHA256 = re.compile(r"[0-9a-f]{64}")


def networks_to_message(networks: Mapping[str, str]) -> DiagnosticArray:
    """Return the checksums of the networks' files as a DiagnosticArray with one status."""
    values = [KeyValue(key=name, value=networks[name]) for name in NAMES if name in networks]
    return DiagnosticArray(status=[DiagnosticStatus(level=DiagnosticStatus.OK, name="networks", values=values)])


def networks_from_message(message: DiagnosticArray) -> dict[str, str]:
    """Return the checksums in a message; those that it does not tell are left out.

    Raises:
        MalformedMessage: a value is no SHA-256 in hexadecimal digits.
    """
    found = {item.key: item.value for status in message.status for item in status.values if item.key in NAMES}
    wrong = [name for name, value in found.items() if not _SHA256.fullmatch(value)]
    if wrong:
        raise MalformedMessage(f"networks refused: {', '.join(wrong)} is no SHA-256")
    return found
