"""Who is in the town and how they move: each agent has an identity, a class, a body and a path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.data.synthetic.bodies import MAKERS, Body
from uav_privacy_sc.data.synthetic.town import TOWN_SIZE, Lane, Town
from uav_privacy_sc.scene import OBJECT_CLASSES

PEDESTRIAN, PEOPLE, BICYCLE, CAR, VAN, TRUCK, TRICYCLE, AWNING, BUS, MOTOR = range(len(OBJECT_CLASSES))
#: Shares of the classes on a vehicle lane and on a cycle lane. Rarer classes get more than a street would show, so
#: that a detector sees enough of each.
_VEHICLES = {CAR: 0.42, VAN: 0.20, TRUCK: 0.16, BUS: 0.12, TRICYCLE: 0.05, AWNING: 0.05}
_CYCLES = {BICYCLE: 0.28, MOTOR: 0.32, TRICYCLE: 0.20, AWNING: 0.20}
_PARKED = {CAR: 0.70, VAN: 0.22, TRICYCLE: 0.04, AWNING: 0.04}
_BERTHED = {CAR: 0.40, VAN: 0.20, TRUCK: 0.30, TRICYCLE: 0.05, AWNING: 0.05}
#: Objects of each class in the 548 pictures of VisDrone-DET's official validation split.
VISDRONE_COUNTS = (8844, 5125, 1287, 14064, 1975, 750, 1045, 532, 251, 4886)
_RESTING = {PEDESTRIAN: 0.30, PEOPLE: 0.40, BICYCLE: 0.10, MOTOR: 0.10, TRICYCLE: 0.05, AWNING: 0.05}
_SADDLE = {BICYCLE: 0.42, MOTOR: 0.38}


@dataclass(frozen=True)
class Agent:
    """One moving or resting thing. ``velocity`` in m/s along its heading; ``lift`` raises it onto a saddle."""

    identity: int
    label: int
    body: Body
    position: np.ndarray  # (2,) metres at time 0
    heading: float  # radians
    velocity: float
    lift: float = 0.0


class _Crowd:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.agents: list[Agent] = []

    def add(self, label: int, position: np.ndarray, heading: float, velocity: float = 0.0, lift: float = 0.0) -> Agent:
        body = MAKERS[label](self.rng)
        agent = Agent(len(self.agents) + 1, label, body, np.asarray(position, float), heading, velocity, lift)
        self.agents.append(agent)
        return agent

    def add_cycle(self, label: int, position: np.ndarray, heading: float, velocity: float, ridden: bool) -> None:
        self.add(label, position, heading, velocity)
        if ridden and label in _SADDLE:
            back = np.asarray(position) - 0.25 * np.array([np.cos(heading), np.sin(heading)])
            self.add(PEOPLE, back, heading, velocity, _SADDLE[label])


def _choose(rng: np.random.Generator, shares: dict[int, float]) -> int:
    return int(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))


def _towards_visdrone(shares: dict[int, float], realism: float) -> dict[int, float]:
    """Mix shares with those that the same classes have among themselves in VisDrone."""
    real = {label: VISDRONE_COUNTS[label] for label in shares}
    total, real_total = sum(shares.values()), sum(real.values())
    return {k: (1 - realism) * shares[k] / total + realism * real[k] / real_total for k in shares}


def _fill_lane(
    crowd: _Crowd, lane: Lane, crossings: tuple[tuple[float, float], ...], density: float, realism: float
) -> None:
    rng = crowd.rng
    vehicles, cycles = _towards_visdrone(_VEHICLES, realism), _towards_visdrone(_CYCLES, realism)
    heading = (0.0 if lane.axis == 0 else np.pi / 2) + (np.pi if lane.direction < 0 else 0.0)
    speed = {"vehicle": rng.uniform(7, 12), "cycle": rng.uniform(3.5, 5.5), "walk": rng.uniform(0.9, 1.5)}[lane.kind]
    speed = 0.0 if lane.waiting and lane.kind != "walk" else speed
    gap = {"vehicle": 11.0, "cycle": 9.0, "walk": 14.0}[lane.kind] / density
    stops = np.array([c[lane.axis] for c in crossings])
    along = rng.uniform(0, gap)
    while along < TOWN_SIZE - gap / 2:
        blocked = lane.waiting and lane.kind != "walk" and np.min(np.abs(stops - along)) < 14
        if not blocked:
            across = lane.offset + rng.normal(0, 0.15)
            position = np.array([along, across] if lane.axis == 0 else [across, along])
            if lane.kind == "vehicle":
                crowd.add(_choose(rng, vehicles), position, heading, speed)
            elif lane.kind == "cycle":
                crowd.add_cycle(_choose(rng, cycles), position, heading, speed, rng.random() < 0.8)
            else:
                crowd.add(PEDESTRIAN, position, heading, speed * rng.uniform(0.7, 1.2))
        along += max(rng.exponential(gap), {"vehicle": 12.5, "cycle": 3.5, "walk": 0.8}[lane.kind])


def populate(town: Town, rng: np.random.Generator, density: float, realism: float = 0.0) -> tuple[Agent, ...]:
    """Put traffic, parked vehicles, walkers and resting people into a town.

    ``density`` 1 is a busy street; ``realism`` 0 gives every class a fair share, 1 the shares of VisDrone.
    """
    crowd = _Crowd(rng)
    for lane in town.lanes:
        _fill_lane(crowd, lane, town.crossings, density, realism)
    for places, shares in ((town.stalls, _PARKED), (town.berths, _BERTHED)):
        parked = _towards_visdrone(shares, realism)
        for x, y, heading in places[rng.random(len(places)) < min(0.55 * density, 0.9)]:
            crowd.add(_choose(rng, parked), np.array([x, y]), heading + rng.normal(0, 0.04))
    resting = _towards_visdrone(_RESTING, realism)
    for place in town.plazas[rng.random(len(town.plazas)) < min(density, 1.0)]:
        for _ in range(rng.integers(1, 4)):
            position = place + rng.normal(0, 1.2, 2)
            heading = rng.uniform(0, 2 * np.pi)
            label = _choose(rng, resting)
            crowd.add(label, position, heading, rng.uniform(0.5, 1.3) if label == PEDESTRIAN else 0.0)
    return tuple(crowd.agents)
