"""Parameters of the link node, and the stage that they mean."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from uav_privacy_sc.link import config as radio
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.geometry import LiveRoute, Route
from uav_privacy_sc.link.process import FlightLinks
from uav_privacy_sc.link.trajectory import load_trajectory
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.pipeline import CODINGS, LinkStage

SAME_DOMAIN = -1
#: Types of a position topic, and the legs in metres below which its changes are noise and no way flown
#: (``LiveRoute``): the fixes of a hovering receiver wander by a metre or so, the poses of an odometry by centimetres.
LEAST_LEG_M = {"NavSatFix": 3.0, "PoseStamped": 0.1}
POSITION_TYPES = tuple(LEAST_LEG_M)
#: Keeps the channel's streams apart from those of a mechanism with the same seed.
SEED_KEY = 0x6C696E6B
_RADIO = {item.name: item for item in LinkConfig.parameters()}


def of_radio(name: str, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    """A parameter that is a field of ``LinkConfig``: default, unit and meaning stand there alone."""
    item = _RADIO[name]
    unit = f" ({item.metadata['unit']})" if item.metadata["unit"] else ""
    return parameter(item.default, item.metadata["about"] + unit, low=low, high=high, choices=choices)


@dataclass(frozen=True)
class RadioParameters:
    """Path loss, noise and packets."""

    carrier_hz: float = of_radio("carrier_hz", 1e8, 1e11)
    bandwidth_hz: float = of_radio("bandwidth_hz", 1e3, 1e10)
    distance_m: float = of_radio("distance_m", 1.0, 1e6)
    eavesdropper_distance_m: float = of_radio("eavesdropper_distance_m", 1.0, 1e6)
    noise_figure_db: float = of_radio("noise_figure_db", 0.0, 60.0)
    temperature_k: float = of_radio("temperature_k", 1.0, 1e5)
    path_loss_exponent: float = of_radio("path_loss_exponent", 1.0, 6.0)
    excess_loss_db: float = of_radio("excess_loss_db", 0.0, 100.0)
    object_rate: float = of_radio("object_rate", 1e-3, 100.0)
    object_outage: str = of_radio("object_outage", choices=radio.OUTAGE_MODELS)
    feature_airtime_s: float = of_radio("feature_airtime_s", 1e-5, 10.0)


@dataclass(frozen=True)
class FadingParameters:
    """What changes from block to block."""

    fading: str = of_radio("fading", choices=radio.FADINGS)
    k_factor_db: float = of_radio("k_factor_db", -40.0, 60.0)
    correlation: str = of_radio("correlation", choices=radio.CORRELATIONS)
    speed_mps: float = of_radio("speed_mps", 0.0, 1e3)
    elevation_deg: float = of_radio("elevation_deg", 0.0, 90.0)
    line_of_sight: str = of_radio("line_of_sight", choices=radio.SIGHTS)
    environment: str = of_radio("environment", choices=radio.ENVIRONMENTS)
    nlos_loss_db: float = of_radio("nlos_loss_db", 0.0, 100.0)
    shadowing_sigma_db: float = of_radio("shadowing_sigma_db", 0.0, 30.0)
    shadowing_distance_m: float = of_radio("shadowing_distance_m", 1e-2, 1e5)
    blockage_rate_hz: float = of_radio("blockage_rate_hz", 0.0, 100.0)
    blockage_duration_s: float = of_radio("blockage_duration_s", 1e-2, 1e4)
    blockage_loss_db: float = of_radio("blockage_loss_db", 0.0, 100.0)
    interference_to_noise: float = of_radio("interference_to_noise", 0.0, 1e9)
    interference_activity: float = of_radio("interference_activity", 0.0, 1.0)


@dataclass(frozen=True)
class GeometryParameters:
    """Where everybody is: a trajectory, or a topic, or neither, and then the configured ranges hold."""

    trajectory: str = parameter("", "CSV file of time_s and x_m y_m z_m or latitude longitude altitude; empty for none")
    trajectory_start_s: float = parameter(
        -1.0, "stamp at which the trajectory begins; -1 for that of the first frame", low=-1.0, high=1e12
    )
    longest_gap_s: float = parameter(10.0, "longest gap between two points of the trajectory", low=1e-3, high=1e6)
    position_topic: str = parameter("", "topic of the aircraft's position; empty for none")
    position_type: str = parameter("NavSatFix", "its message type", choices=POSITION_TYPES)
    origin: tuple[float, ...] = parameter(
        (), "latitude, longitude (degrees) and altitude (m) of the point of reference; empty for the first fix"
    )
    ground_position_m: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "ground station east, north, up of the reference")
    eavesdropper_position_m: tuple[float, ...] = parameter(
        (100.0, 0.0, 0.0), "eavesdropper east, north, up of the reference"
    )


@dataclass(frozen=True)
class LinkParameters(RadioParameters, FadingParameters, GeometryParameters):
    """Parameters of the link. The defaults are P1's channel; what P1 leaves out is marked in ``LinkConfig``."""

    ground_domain_id: int = parameter(SAME_DOMAIN, "DDS domain of the ground; -1 for that on board", low=-1, high=232)
    coding: str = parameter("analog", "features as analog symbols, or as a packet of lattice codes", choices=CODINGS)
    link_seed: int = parameter(-1, "seed of fading and noise; -1 for none", low=-1, high=2**63 - 1)

    def radio(self) -> LinkConfig:
        """Return the radio that the parameters mean."""
        ours = {item.name for item in fields(self)}
        return LinkConfig(**{name: getattr(self, name) for name in _RADIO if name in ours})

    def route(self) -> Route | None:
        """Return where the aircraft is over time, None where nobody says so.

        Raises:
            ValueError: both a trajectory and a topic are given, or the trajectory cannot be used.
        """
        if self.trajectory and self.position_topic:
            raise ValueError("parameters trajectory and position_topic are both set; give one of them")
        if self.position_topic:
            return LiveRoute(LEAST_LEG_M[self.position_type])
        if not self.trajectory:
            return None
        origin = (self.origin[0], self.origin[1], self.origin[2]) if self.origin else None
        return load_trajectory(self.trajectory, origin, self.longest_gap_s)

    def stage(self, route: Route | None) -> LinkStage:
        """Build the stage along a route."""
        seeds = np.random.SeedSequence(None if self.link_seed < 0 else [SEED_KEY, self.link_seed]).spawn(2)
        ground, eve = (np.random.default_rng(seed) for seed in seeds)
        config = self.radio()
        links = FlightLinks(config, ground, eve, route, self.ground_position_m, self.eavesdropper_position_m)
        start_s = None if self.trajectory_start_s < 0.0 else self.trajectory_start_s
        return LinkStage(config, ground, eve, links, self.coding, start_s)
