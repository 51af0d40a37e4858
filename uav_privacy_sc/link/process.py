"""The channel over a flight: geometry, line of sight, shadowing, blockage, interference and correlated fading."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from uav_privacy_sc.link.channel import BlockState
from uav_privacy_sc.link.clock import marked_gain_db
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.fading import JakesFading, fade_gain, line_of_sight, scattered
from uav_privacy_sc.link.geometry import Route, View, view
from uav_privacy_sc.link.large_scale import LargeScale
from uav_privacy_sc.link.path_loss import from_db, noise_power, path_loss_db


class LinkProcess:
    """One link whose blocks follow one another. With P1's configuration it draws what ``channel.draw_fading`` draws."""

    def __init__(self, config: LinkConfig, rng: np.random.Generator) -> None:
        self.config, self._rng = config, rng
        self._large_scale = LargeScale(config, rng)
        self._jakes = JakesFading(config.carrier_hz, rng)
        self._way_m = self._nearer_m = math.nan

    def state(
        self, time_s: float, seen: View | None = None, way_m: float | None = None, blockage_db: float = 0.0
    ) -> BlockState:
        """Return the channel of the block at a time.

        ``seen`` and ``way_m`` (metres flown) come from a trajectory; without one they are the configured range and
        elevation, and speed times time. ``blockage_db`` is a scripted loss on top of the random ones. Rician fading
        has its strong path in blocks with line of sight and without any blockage only; in others it is Rayleigh.
        """
        config = self.config
        way_m = config.speed_mps * time_s if way_m is None else way_m
        nearer_m = self._nearer(seen, way_m)
        seen = seen or View(config.distance_m, config.elevation_deg)
        further_db, clear = self._large_scale.loss_db(time_s, way_m, seen.elevation_deg)
        loss_db = path_loss_db(config, seen.distance_m) + blockage_db + further_db
        sight = line_of_sight(config.carrier_hz, nearer_m) if clear and blockage_db <= 0.0 else None
        gain = from_db(-loss_db) * fade_gain(config, self._coefficient(way_m), sight)
        return BlockState(gain, noise_power(config) * self._large_scale.noise_rise())

    def _nearer(self, seen: View | None, way_m: float) -> float:
        """Return by how many metres the strong path has become shorter: cos(theta) integrated over the way.

        With positions that is how much nearer they lie, whatever the way. Without, the aircraft flies level and
        straight towards the receiver, so that theta is the elevation. Where the way stands still, so does the path: a
        receiver of fixes wanders by many wavelengths while it hovers.
        """
        if seen is None:
            return way_m * math.cos(math.radians(self.config.elevation_deg))
        if way_m != self._way_m:
            self._way_m, self._nearer_m = way_m, -seen.distance_m
        return self._nearer_m

    def _coefficient(self, way_m: float) -> complex:
        return self._jakes.coefficient(way_m) if self.config.correlation == "jakes" else scattered(self._rng)


class FlightLinks:
    """The links to the ground station and to the eavesdropper, along one way flown, fading independently.

    Positions are ``(3,)`` metres east, north and up. Scripted blockage stands between the aircraft and the ground only.
    Without a ``route``, or while it knows no position, the configured ranges, elevation and speed hold.

    Raises:
        ValueError: where ground or eavesdropper listen is not three finite numbers within ``geometry.FARTHEST_M``.
    """

    def __init__(
        self,
        config: LinkConfig,
        rng_ground: np.random.Generator,
        rng_eve: np.random.Generator,
        route: Route | None = None,
        ground: ArrayLike = (0.0, 0.0, 0.0),
        eavesdropper: ArrayLike = (100.0, 0.0, 0.0),
    ) -> None:
        for receiver in (ground, eavesdropper):  # refused here and not at every block
            view((0.0, 0.0, 0.0), receiver)
        self.config, self._route, self._ground, self._eavesdropper = config, route, ground, eavesdropper
        self._block = 0
        self._links = (LinkProcess(config, rng_ground), LinkProcess(config.eavesdropper, rng_eve))

    def states(self, time_s: float) -> tuple[BlockState, BlockState]:
        """Return the channels to ground and eavesdropper of the block at a time.

        The gain to the ground carries the number of its block in its last places (``clock.marked_gain_db``).
        """
        ground, eve = self._drawn(time_s)
        marked = from_db(marked_gain_db(ground.gain_db, self._block)) * ground.noise_power
        self._block += 1
        return BlockState(marked, ground.noise_power), eve

    def _drawn(self, time_s: float) -> tuple[BlockState, BlockState]:
        to_ground, to_eve = self._links
        route = self._route
        if route is None or not route.known:
            return to_ground.state(time_s), to_eve.state(time_s)
        position, way = route.position(time_s), route.way(time_s)
        return (
            to_ground.state(time_s, view(position, self._ground), way, route.blockage(time_s)),
            to_eve.state(time_s, view(position, self._eavesdropper), way),
        )

    def views(self, time_s: float) -> tuple[View, View]:
        """Return how ground and eavesdropper see the aircraft at a time."""
        route, config = self._route, self.config
        if route is None or not route.known:
            return (
                View(config.distance_m, config.elevation_deg),
                View(config.eavesdropper_distance_m, config.elevation_deg),
            )
        position = route.position(time_s)
        return view(position, self._ground), view(position, self._eavesdropper)
