"""Protection: the only node that publishes ``tx/*``. It fails closed: in doubt, nothing is published."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from std_msgs.msg import Float32

from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.budget_follower import BudgetFollower
from uav_privacy_sc.nodes.conversion import (
    make_header,
    markers_to_message,
    objects_from_message,
    objects_to_message,
    picture_to_message,
    record_to_message,
    stamp_ns,
    tensor_from_message,
    tensor_to_message,
)
from uav_privacy_sc.nodes.join import StampJoin
from uav_privacy_sc.nodes.looking import (
    BADGE,
    BADGE_PERIOD_S,
    BUDGET_MAP,
    TRUE_MARKERS,
    badge_to_message,
    budget_map_picture,
)
from uav_privacy_sc.nodes.networks import TOPIC as NETWORKS
from uav_privacy_sc.nodes.networks import networks_from_message
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import leave, run
from uav_privacy_sc.object_release import LOCATION_MODES, ObjectConfig
from uav_privacy_sc.privacy.accountant import Odometer
from uav_privacy_sc.privacy.budget_map import RULES, BudgetMapConfig
from uav_privacy_sc.privacy.calibration import METHODS
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.privacy.lattice import STEP
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.visual import MAP_SOURCES, VisualConfig, mechanisms
from uav_privacy_sc.protection import ProtectionConfig, ProtectStage
from uav_privacy_sc.release import ProtectionError, Release

SEED = "seed of the noise, for experiments only; -1 for cryptographic randomness"
UNPROTECTED = "none"
EXPERIMENT = "EXPERIMENT: the noise has a seed, so nothing that is released is private"
IN_MEMORY = "memory"
#: How long perception may be silent before diagnostics say so.
SILENCE_S = 3.0


@dataclass(frozen=True)
class ProtectionParameters:
    """Parameters of protection."""

    mechanism: str = parameter("region_aware", "visual mechanism", choices=mechanisms())
    calibration: str = parameter("analytic", "how noise follows from epsilon", choices=METHODS)
    map_rule: str = parameter("algorithm1", "rule of the budget map", choices=RULES)
    map_source: str = parameter("released", "boxes of the budget map", choices=MAP_SOURCES)
    kappa_bg: float = parameter(1.12, "background factor of the budget map", low=1e-3, high=1e4)
    kappa_ctx: float = parameter(0.52, "factor around sensitive objects", low=1e-3, high=1e4)
    epsilon_min: float = parameter(0.08, "smallest budget of an object's cells", low=1e-4, high=1e2)
    c_clip: float = parameter(1.0, "L2 bound of a cell's features", low=1e-3, high=1e3)
    delta: float = parameter(1e-5, "failure probability of a cell's release", low=1e-12, high=1e-2)
    channels: int = parameter(16, "channels of the features; others are refused", low=1, high=9999)
    undetected_cells: int = parameter(
        1, "cells that the odometer charges for what the detector missed", low=0, high=9999
    )
    reach_cells: int = parameter(
        2, "cells around its box that an object changes through the encoder; they are charged, too", low=0, high=99
    )
    lattice_step: float = parameter(
        STEP, "features are whole multiples of this power of two (int16); 0 for floats", low=0.0, high=1.0
    )
    location_mode: str = parameter("independent", "a place for every frame, or for a track", choices=LOCATION_MODES)
    test_ratio: float = parameter(0.5, "predictive: budget of the test, in epsilon_l", low=1e-2, high=10.0)
    test_threshold: float = parameter(8.0, "predictive: distance at which a place is stale", low=1e-2, high=1e4)
    label_epsilon: float = parameter(0.0, "randomized response of the class; 0 sends it in clear", low=0.0, high=100.0)
    size_epsilon: float = parameter(0.0, "noise on an octave of box size; 0 sends it in clear", low=0.0, high=100.0)
    count_epsilon: float = parameter(0.0, "noise on the object count; 0 sends it in clear", low=0.0, high=100.0)
    count_margin: int = parameter(8, "dummy objects on average, with count_epsilon", low=0, high=1000)
    hide_score: bool = parameter(True, "send no detection scores")
    shuffle_objects: bool = parameter(True, "send objects in random order")
    max_budget_age_s: float = parameter(2.0, "how old a budget may be when it is used", low=0.1, high=3600.0)
    ledger: str = parameter("", "file of the odometer; empty for ~/.ros/uav_privacy_sc/, 'memory' for none")
    enforce_ceiling: bool = parameter(True, "stop releasing at epsilon_ceiling")
    epsilon_ceiling: float = parameter(1000000.0, "mission epsilon that no release may pass", low=1e-3, high=1e12)
    expected_frames: int = parameter(0, "frames that the ceiling is to last for; 0 does not pace", low=0, high=10**9)
    seed: int = parameter(-1, SEED, low=-1, high=2**63 - 1)

    def stage(self, ledger: Path | None) -> ProtectStage:
        """Build the stage."""
        visual = VisualConfig(
            mechanism=self.mechanism,
            c_clip=self.c_clip,
            delta=self.delta,
            calibration=self.calibration,
            map_source=self.map_source,
            lattice_step=self.lattice_step or None,
            channels=self.channels,
            undetected_cells=self.undetected_cells,
            reach_cells=self.reach_cells,
        )
        budget_map = BudgetMapConfig(
            rule=self.map_rule, kappa_ctx=self.kappa_ctx, kappa_bg=self.kappa_bg, epsilon_min=self.epsilon_min
        )
        config = ProtectionConfig(visual, budget_map, self.max_budget_age_s, self._objects(), self.expected_frames)
        odometer = Odometer(ledger, self.delta, self.epsilon_ceiling if self.enforce_ceiling else None)
        return ProtectStage(config, RandomStreams(None if self.seed < 0 else self.seed), odometer)

    def _objects(self) -> ObjectConfig:
        options = DescriptorConfig(
            label_epsilon=self.label_epsilon or None,
            size_epsilon=self.size_epsilon or None,
            count_epsilon=self.count_epsilon or None,
            count_margin=self.count_margin,
            hide_score=self.hide_score,
            shuffle=self.shuffle_objects,
        )
        return ObjectConfig(options, self.location_mode, self.test_ratio, self.test_threshold)


class ProtectionNode(StageNode[ProtectionParameters]):
    """Wraps ``protection.ProtectStage``."""

    NAME = "protection"
    Config = ProtectionParameters

    def __init__(self, stage: ProtectStage | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self.stage = self.config.stage(self._ledger()) if stage is None else stage
        if self.stage.streams.seeded:
            self.get_logger().warning(EXPERIMENT)
        self.follower = BudgetFollower(self, lambda: self.tell("followed", 0))
        self.networks: dict[str, Any] = {}
        self.take(NETWORKS, self._on_networks)
        self._refused: str | None = "nothing released yet"
        self._heard = time.monotonic()
        self._header = make_header(0, "camera")
        self.create_timer(BADGE_PERIOD_S, self._show_badge, clock=self.steady_clock)
        self._join = StampJoin(self._on_percept, lambda stamp: self.drop("half a frame", stamp))
        self.take("semantic/objects", self._join.first)
        self.take("semantic/features", self._join.second)

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return whether frames are being released, why not, and what has been spent."""
        spent = self.stage.odometer.spent()
        values = {
            "mechanism": self.stage.config.visual.mechanism,
            "seeded": self.stage.streams.seeded,
            "releases": spent.releases,
            "mission_epsilon": spent.mission.epsilon,
            "mission_epsilon_left": spent.remaining,
        }
        if self.stage.config.visual.mechanism == UNPROTECTED:
            return False, "NOT PROTECTED: the visual mechanism is none", values
        silent_s = time.monotonic() - self._heard
        if silent_s > SILENCE_S:
            before = f"; before that: {self._refused}" if self._refused else ""
            return False, f"nothing from perception for {silent_s:.0f} s{before}", values
        fine = "protected" if not self.stage.streams.seeded else EXPERIMENT
        return self._refused is None, self._refused or fine, values

    def drop(self, reason: str, stamp_ns: int, detail: str = "") -> None:
        """Count the frame, and let diagnostics say why nothing was released."""
        self._refused = detail or reason
        super().drop(reason, stamp_ns, detail)

    def close(self) -> None:
        """Close the ledger, too."""
        self.stage.odometer.close()
        super().close()

    def _ledger(self) -> Path | None:
        if self.config.ledger == IN_MEMORY:
            return None
        if self.config.ledger:
            return Path(self.config.ledger).expanduser()
        folder = Path.home() / ".ros" / "uav_privacy_sc"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.get_fully_qualified_name().strip('/').replace('/', '_')}.ledger"

    def _on_networks(self, message: Any) -> None:
        self.networks = {}  # of a message that does not read, the record says that nobody knows
        self.networks = networks_from_message(message)
        self.tell("networks", 0)

    def _on_percept(self, objects_message: Any, features_message: Any) -> None:
        self._heard = time.monotonic()
        stamp, budgets = stamp_ns(features_message.header), self.follower.budgets
        objects, features = objects_from_message(objects_message), tensor_from_message(features_message)
        try:
            if objects is None:
                raise ProtectionError("no objects came from perception")
            with self.timed("protect") as taken:
                release = self.stage(features, objects, budgets, stamp, time.monotonic_ns())
        except ProtectionError as error:
            self.drop("not released", stamp, str(error))
            return
        release = replace(release, record=replace(release.record, **self.networks))
        messages = self._messages(release, features_message.header)  # all of them before the first goes out
        self._refused = None
        self.counts["frames"] += 1
        values = {"record": release.record, "epsilon_map": release.epsilon_map, "budgets": budgets, "stage_ms": taken}
        self.tell("released", stamp, **values)
        for name, message in messages.items():
            self.give(name, message)
        self._show(release, objects, features_message.header)

    def _show(self, release: Release, objects: Any, header: Any) -> None:
        """Show on board what was done, where somebody looks; true places in experiments only."""
        self._header = header
        if self.wanted(BUDGET_MAP):
            self.give(BUDGET_MAP, picture_to_message(budget_map_picture(release.epsilon_map), header))
        if self.stage.streams.seeded and self.wanted(TRUE_MARKERS):
            self.give(TRUE_MARKERS, markers_to_message(objects, header))

    def _show_badge(self) -> None:
        if self.wanted(BADGE):
            fine, text, _ = self.status()
            self.give(BADGE, badge_to_message(fine, self.stage.streams.seeded, text, self._header))

    def _messages(self, release: Release, header: Any) -> dict[str, Any]:
        step = release.record.lattice_step
        return {
            "tx/record": record_to_message(release.record, header, self.get_fully_qualified_name()),
            "tx/lattice_step": Float32(data=step),
            "tx/objects": objects_to_message(release.objects, header),
            "tx/features": tensor_to_message(release.features, header, step),
        }


def main() -> None:
    """Run the node as a process."""
    leave(run(ProtectionNode, ProtectionNode.NAME))


if __name__ == "__main__":
    main()
