"""One frame through perceive, protect, transmit, decode and attack as plain stages, without ROS.

A node wraps one of these stages, and evaluation runs the same stages in a row (:class:`Pipeline`), so what is measured
is what flies. Nothing here imports torch: perception and attack are callables that are handed in, so a release can be
made on a machine without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.control.bcd import OperatingPoint, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.control.tracking import BudgetTracker, TrackingConfig
from uav_privacy_sc.link.channel import BlockState, LinkConfig, transmit_codes, transmit_features, transmit_objects
from uav_privacy_sc.link.clock import BlockClock
from uav_privacy_sc.link.config import require_choice
from uav_privacy_sc.link.payload import Payload, analog_payload, coded_payload
from uav_privacy_sc.link.process import FlightLinks
from uav_privacy_sc.privacy import lattice
from uav_privacy_sc.protection import ProtectionConfig, ProtectStage
from uav_privacy_sc.release import Budgets, ProtectionError, Release, ReleaseRecord

__all__ = [
    "BudgetStage",
    "Budgets",
    "FrameResult",
    "GroundStage",
    "LinkStage",
    "Payload",
    "Pipeline",
    "ProtectStage",
    "ProtectionConfig",
    "ProtectionError",
    "Reception",
    "Release",
    "ReleaseRecord",
    "Transmission",
]


#: How features go over the air: as analog symbols, or as one packet of lattice codes with a rate limit.
CODINGS = ("analog", "packet")
#: What stands for features whose packet was lost (see :class:`GroundStage`).
LOST_FEATURES = ("prior", "last")


@dataclass(frozen=True)
class Reception:
    """What one party received: features as equalized and objects, None where their packet was lost, and SNR in dB.

    ``shape`` (C, H', W') is what the party knows of a feature packet that it lost.
    """

    features: np.ndarray | None
    objects: np.ndarray | None
    snr_db: float
    shape: tuple[int, ...]

    @property
    def prior(self) -> np.ndarray:
        """The objects as a decoder takes them: none where their packet was lost."""
        return scene.no_objects() if self.objects is None else self.objects

    @property
    def heard(self) -> np.ndarray:
        """The features as a network takes them: silence, all zero, where their packet was lost."""
        return np.zeros(self.shape, np.float32) if self.features is None else self.features


@dataclass(frozen=True)
class Transmission:
    """One frame on the air.

    ``ground_gain_db`` is the gain that it met (``link.channel.BlockState.gain_db``), ``distance_m`` the slant range to
    the ground; ``payload`` is what it put on the air.
    """

    ground: Reception
    eve: Reception
    ground_gain_db: float
    distance_m: float
    payload: Payload

    def record(self, stamp_ns: int, p_tx: float, coding: str) -> dict[str, float | int | str]:
        """Return what the frame put on the air, in plain numbers; ``energy_j`` is what transmitting it took."""
        return {
            "stamp_ns": stamp_ns,
            "coding": coding,
            "payload_bits": self.payload.bits,
            **asdict(self.payload),
            "p_tx": p_tx,
            "energy_j": p_tx * self.payload.airtime_s,
            "gain_db": self.ground_gain_db,
            "distance_m": self.distance_m,
        }


class LinkStage:
    """Send one frame a block to the ground and, unasked, to the eavesdropper, who fade independently.

    The block that the next frame will meet is drawn beforehand, and its gain to the ground is known on board
    (:attr:`gain_db`), as P1's controller needs it (section 4.2). Features go analog, as in P1, or by ``coding``
    ``packet`` as the lattice codes that they are, whole or not at all. The public scale of analog features is in the
    object packet: whoever loses that has no features of this frame either.

    Args:
        config: the radio.
        rng_ground, rng_eve: fading and noise of either link.
        links: their geometry; without it the configured ranges hold.
        coding: one of ``CODINGS``.
        start_s: stamp, in seconds, at which the flight began; None for the first frame's.
    """

    def __init__(
        self,
        config: LinkConfig,
        rng_ground: np.random.Generator,
        rng_eve: np.random.Generator,
        links: FlightLinks | None = None,
        coding: str = "analog",
        start_s: float | None = None,
    ) -> None:
        require_choice("coding", coding, CODINGS)
        self.config, self.coding = config, coding
        self.links = links or FlightLinks(config, rng_ground, rng_eve)
        self._rngs = (rng_ground, rng_eve)
        self._clock = BlockClock(start_s)
        self._gain_db = np.float32(np.nan)
        self._draw()

    @property
    def gain_db(self) -> float:
        """Gain to the ground of the block that the next transmission meets, as exact as a Float32 carries it.

        It differs from that of the block before, by a unit in the last place (a millionth of a dB) where the channel
        stands still: so whoever hears it, repeated as often as it may be, can tell a new block from a repetition.
        """
        return float(self._gain_db)

    def __call__(
        self, features: np.ndarray, objects: np.ndarray, p_tx: float, stamp_ns: int = 0, lattice_step: float = 0.0
    ) -> Transmission:
        """Send features (C, H', W') and objects with ``p_tx`` watts, then draw the next block.

        ``lattice_step`` is that of features in whole steps, 0 for floats, which cannot go as a packet.

        Raises:
            ValueError: a feature is not finite or not on the lattice, or ``p_tx`` is not above 0; nothing is sent and
                the block stays.
        """
        codes = self._codes(features, lattice_step) if self.coding == "packet" else None
        sizes = (len(objects), self.config)
        payload = analog_payload(features.size, *sizes) if codes is None else coded_payload(codes, *sizes)
        ground, eve = (
            self._receive(features, codes, objects, p_tx, state, rng)
            for state, rng in zip(self._states, self._rngs, strict=True)
        )
        sent = Transmission(ground, eve, self.gain_db, self.links.views(self._clock.expected_s)[0].distance_m, payload)
        self._clock.tick(stamp_ns)
        self._draw()
        return sent

    def _draw(self) -> None:
        self._states = self.links.states(self._clock.expected_s)
        gain_db = np.float32(self._states[0].gain_db)
        self._gain_db = np.nextafter(gain_db, np.float32(np.inf)) if gain_db == self._gain_db else gain_db

    def _codes(self, features: np.ndarray, lattice_step: float) -> np.ndarray:
        if not lattice_step:
            raise ValueError("features are floats and cannot go as a packet; set protection's lattice_step")
        return lattice.encode(features, lattice_step)

    def _receive(
        self,
        features: np.ndarray,
        codes: np.ndarray | None,
        objects: np.ndarray,
        p_tx: float,
        state: BlockState,
        rng: np.random.Generator,
    ) -> Reception:
        received: np.ndarray | None
        if codes is None:
            received = transmit_features(features, p_tx, state, rng)
        else:  # a packet that arrives is what was sent
            received = None if transmit_codes(codes, p_tx, state, rng, self.config) is None else features.copy()
        told = transmit_objects(objects, p_tx, state, rng, self.config, with_scale=codes is None)
        if codes is None and told is None:  # the scale is in the object packet
            received = None
        return Reception(received, told, state.snr_db(p_tx), features.shape)


class GroundStage:
    """Decode what arrived, and by a stated policy what did not.

    Objects whose packet was lost count as none. Where the feature packet was lost, ``lost_features`` says what stands
    for it: ``prior``, the mask of silent features (all zero) and of this frame's objects; or ``last``, the mask of the
    frame before, and the prior as long as there is none.
    """

    def __init__(self, decode: Callable[[np.ndarray, np.ndarray], np.ndarray], lost_features: str = "prior") -> None:
        require_choice("lost_features", lost_features, LOST_FEATURES)
        self.decode, self.lost_features = decode, lost_features
        self._last: np.ndarray | None = None

    def __call__(self, reception: Reception) -> np.ndarray:
        """Return the mask (uint8) of one frame."""
        if reception.features is None and self.lost_features == "last" and self._last is not None:
            return self._last
        self._last = self.decode(reception.heard, reception.prior)
        return self._last


class BudgetStage:
    """Choose the operating point for the gain that the next block will have (P1 section 4.2).

    With ``tracking``, budgets and power move towards it in bounded steps, and not for less than a dead band.
    """

    def __init__(self, policy: ScenarioPolicy, tracking: TrackingConfig | None = None) -> None:
        self.policy = policy
        self._tracker = None if tracking is None else BudgetTracker(tracking)

    def __call__(self, gain_db: float) -> OperatingPoint:
        """Return the operating point at ``gain_db``; one that is infeasible says so in its status.

        Raises:
            ValueError: ``gain_db`` is not finite.
        """
        if self._tracker is None:
            return optimize_at_db(self.policy, gain_db)
        return self._tracker.update(self.policy, gain_db)

    def budgets(self, point: OperatingPoint, stamp_ns: int) -> Budgets:
        """Return the budgets of an operating point under this policy."""
        return Budgets.from_point(point, self.policy, stamp_ns)


@dataclass
class FrameResult:
    """What every stage made of one frame. With ``dropped`` set, nothing left the aircraft and the rest is None."""

    stamp_ns: int
    features: np.ndarray | None = None
    objects: np.ndarray | None = None
    budgets: Budgets | None = None
    utility: float | None = None
    release: Release | None = None
    transmission: Transmission | None = None
    mask: np.ndarray | None = None
    reconstruction: np.ndarray | None = None
    dropped: str | None = None
    stage_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage took."""
        start = time.perf_counter()
        yield
        self.stage_ms[stage] = (time.perf_counter() - start) * 1e3


@dataclass
class Pipeline:
    """All stages in a row for one frame, as the nodes run them.

    ``perceive`` maps an image to an object with ``features`` and ``objects``; ``decode`` maps features and objects
    (none where their packet was lost) to a mask; ``attack`` maps features to a picture. The latter two may be left out.
    ``lost_features`` is the policy of :class:`GroundStage`.
    """

    perceive: Callable[[np.ndarray], Any]
    protect: ProtectStage
    link: LinkStage
    budget: BudgetStage
    decode: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    attack: Callable[[np.ndarray], np.ndarray] | None = None
    lost_features: str = "prior"

    def __post_init__(self) -> None:
        self._ground = None if self.decode is None else GroundStage(self.decode, self.lost_features)

    def __call__(self, image: np.ndarray, stamp_ns: int) -> FrameResult:
        """Fly one image (H, W, 3) uint8 RGB through all stages."""
        result = FrameResult(stamp_ns)
        with result.timed("perceive"):
            percept = self.perceive(image)
        result.features, result.objects = percept.features, percept.objects
        with result.timed("budget"):
            point = self.budget(self.link.gain_db)
        result.budgets, result.utility = self.budget.budgets(point, stamp_ns), float(point.utility)
        try:
            with result.timed("protect"):
                result.release = self.protect(percept.features, percept.objects, result.budgets, stamp_ns)
        except ProtectionError as error:
            result.dropped = str(error)
            return result
        self._on_the_air(result, result.release, result.budgets.p_tx)
        return result

    def _on_the_air(self, result: FrameResult, release: Release, p_tx: float) -> None:
        with result.timed("link"):
            step = release.record.lattice_step
            sent = self.link(release.features, release.objects, p_tx, result.stamp_ns, step)
        result.transmission = sent
        if self._ground is not None:
            with result.timed("decode"):
                result.mask = self._ground(sent.ground)
        if self.attack is not None:
            with result.timed("attack"):
                result.reconstruction = self.attack(sent.eve.heard)
