"""What can be wrong with an answer. Each fault has a name; one that is found keeps the upload out of the model.

The clip is enforced by the client, under whose noise nobody can see it any more. What the server can check, it does:
that the client says it clipped at the agreed bound and added the agreed noise, and that the upload is no longer than
the bound and such noise can make it (``OneshotLaplace.largest_norm``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.fleet.exchange import Answer, first_line
from uav_privacy_sc.fleet.messages import GRADIENT, Malformed, Upload
from uav_privacy_sc.privacy.oneshot import OneshotLaplace

#: Norms of features are what the encoder makes them but for rounding.
NORM_TOLERANCE = 1e-3

DROPPED, LATE, TWICE, STRANGER = "dropped out", "late", "twice", "stranger"
NOT_FINITE, SHAPE, UNCLIPPED, MALFORMED = "not finite", "another shape", "unclipped", "malformed"
KINDS = (DROPPED, LATE, TWICE, STRANGER, NOT_FINITE, SHAPE, UNCLIPPED, MALFORMED)


class Fault(ValueError):
    """An answer that is left out: which kind, whose, in which round, and why, in one line."""

    def __init__(self, kind: str, client: int, round_number: int, why: str) -> None:
        super().__init__(f"round {round_number}, client {client}: {kind}: {why}; left out")
        self.kind, self.client, self.round = kind, client, round_number


@dataclass(frozen=True)
class Expected:
    """What the server has ordered from a client, and what it takes.

    Attributes:
        strategy: ``gradient`` or ``features``.
        count: entries at most; ``size``: of so many (of the encoder's part with features).
        mechanism: bound and noise that are agreed on.
        most: features at most, each of ``feature_size`` numbers; ``norms``: least and largest L2 norm of one.
    """

    strategy: str
    count: int
    size: int
    mechanism: OneshotLaplace
    most: int = 0
    feature_size: int = 0
    norms: tuple[float, float] = (1.0, 1.0)


def examine(answer: Answer, round_number: int, expected: Expected | None, taken: set[int]) -> Upload:
    """Return the upload of an answer that is as it should be.

    Args:
        expected: what this client was asked for in this round; None: it was not asked.
        taken: clients whose upload has been taken in this round.

    Raises:
        Fault: it is not; its kind is one of :data:`KINDS`.
    """
    client = answer.client

    def fault(kind: str, why: str) -> Fault:
        return Fault(kind, client, round_number, why)

    if answer.asked != round_number:
        raise fault(LATE, f"an answer to round {answer.asked} has come now")
    if answer.message is None:
        raise fault(DROPPED, answer.reason)
    if answer.message.has_error():
        raise fault(DROPPED, first_line(answer.message.error.reason))
    try:
        upload = Upload.read(answer.message.content)
    except Malformed as error:
        raise fault(MALFORMED, first_line(str(error))) from None
    if upload.client != client or expected is None:
        raise fault(STRANGER, f"an upload of client {upload.client}, which was not asked through this node")
    if upload.round != round_number:
        raise fault(LATE, f"an upload for round {upload.round}")
    if client in taken:
        raise fault(TWICE, "its upload for this round has been taken")
    for kind, why in _differences(upload, expected):
        raise fault(kind, why)
    return upload


def _differences(upload: Upload, expected: Expected) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an upload, the gravest first."""
    if upload.strategy != expected.strategy:
        yield SHAPE, f"{upload.strategy} instead of {expected.strategy}"
    if upload.size != expected.size:
        yield SHAPE, f"made of {upload.size} entries instead of {expected.size}"
    for name in ("bound", "sigma_1", "sigma_2"):
        says, should = getattr(upload, name), getattr(expected.mechanism, name)
        if not np.isclose(says, should, rtol=1e-9, atol=0):
            yield UNCLIPPED, f"{name} is {says:g} instead of {should:g}"
    yield from (_update if expected.strategy == GRADIENT else _features)(upload, expected)


def _update(upload: Upload, expected: Expected) -> Iterator[tuple[str, str]]:
    indices, values = upload.indices, upload.values
    if indices.shape != values.shape or indices.ndim != 1 or indices.dtype != np.int64:
        yield SHAPE, f"indices {indices.dtype}{indices.shape} with values {values.dtype}{values.shape}"
        return
    if len(indices) > expected.count:
        yield SHAPE, f"{len(indices)} entries, {expected.count} were ordered"
    if len(indices) and (indices[0] < 0 or indices[-1] >= expected.size or np.any(np.diff(indices) <= 0)):
        yield SHAPE, f"indices that do not rise between 0 and {expected.size - 1}"
    if not np.all(np.isfinite(values)):
        yield NOT_FINITE, f"{int(np.sum(~np.isfinite(values)))} of {len(values)} values"
        return
    norm = float(np.abs(values.astype(np.float64)).sum())
    longest = expected.mechanism.largest_norm(max(1, len(values)), expected.size)
    if norm > longest:
        yield UNCLIPPED, f"an L1 norm of {norm:.4g}, where bound and noise make at most {longest:.4g}"


def _features(upload: Upload, expected: Expected) -> Iterator[tuple[str, str]]:
    features = upload.features
    if features.ndim != 2 or features.shape[1:] != (expected.feature_size,):
        yield SHAPE, f"features {features.shape}, d is {expected.feature_size}"
        return
    if not 0 < len(features) <= expected.most:
        yield SHAPE, f"{len(features)} features; 1 to {expected.most} were ordered"
    if not np.all(np.isfinite(features)):
        yield NOT_FINITE, f"{int(np.sum(~np.isfinite(features)))} of {features.size} numbers"
        return
    norms, (least, largest) = np.linalg.norm(features.astype(np.float64), axis=1), expected.norms
    if norms.min() < least - NORM_TOLERANCE or norms.max() > largest + NORM_TOLERANCE:
        yield UNCLIPPED, f"features of norm {norms.min():.4g} to {norms.max():.4g}, not {least:.4g} to {largest:.4g}"
