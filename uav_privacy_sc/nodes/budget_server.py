"""The budget server: chooses budgets and power for the channel; its parameters are what it chose."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.parameter import Parameter
from std_msgs.msg import Float32

from uav_privacy_sc.control.bcd import OperatingPoint
from uav_privacy_sc.control.policy import select_policy
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import leave, run
from uav_privacy_sc.pipeline import BudgetStage
from uav_privacy_sc.release import BUDGET_NAMES

ABOUT = {
    "epsilon_v": "visual budget of the next frame, chosen by this node alone; 0 until the channel is known",
    "epsilon_l": "location budget of the next frame, chosen by this node alone; 0 until the channel is known",
    "p_tx": "transmit power of the next frame in watts, chosen by this node alone; 0 until the channel is known",
    "location_branch": "location mechanism of the scenario: grid or planar_laplace",
    "grid_size": "cells along each axis of the location grid",
    "location_scale": "units of planar Laplace to the side of the picture",
}
UNKNOWN = {"epsilon_v": 0.0, "epsilon_l": 0.0, "p_tx": 0.0}


@dataclass(frozen=True)
class BudgetServerConfig:
    """Parameters of the budget server that others may set."""

    scenario: str = parameter("surveillance", "policy to follow", read_only=False)
    scenarios_file: str = parameter("", "YAML file with further policies; empty for the shipped ones")
    heartbeat_s: float = parameter(0.5, "how often the budget is confirmed", low=0.05, high=60.0)
    max_gain_age_s: float = parameter(2.0, "how old the gain may be for a confirmation", low=0.1, high=3600.0)


class BudgetServerNode(StageNode[BudgetServerConfig]):
    """Wraps ``pipeline.BudgetStage``. A budget is confirmed for as long as the link tells its gain, then goes stale."""

    NAME = "budget_server"
    Config = BudgetServerConfig

    def __init__(self, stage: BudgetStage | None = None, **options: Any) -> None:
        self._steering = threading.local()
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self.stage = stage or BudgetStage(self._policy(self.config.scenario))
        self.point: OperatingPoint | None = None
        self.gain_db: float | None = None
        self._heard = -math.inf
        self._declare_budgets()
        self.take("link/ground/gain_db", self._on_gain)
        self.create_timer(self.config.heartbeat_s, self._on_heartbeat, clock=self.steady_clock)

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the operating point."""
        if self.point is None:
            return False, "no gain from the link yet", {}
        values: dict[str, Any] = {name: getattr(self.point, name) for name in UNKNOWN}
        values |= {"utility": self.point.utility, "gain_db": self.gain_db, "solver": self.point.status}
        fresh = time.monotonic() - self._heard <= self.config.max_gain_age_s
        return fresh, "steering" if fresh else "the link has fallen silent", values

    def judge(self, given: list[Parameter]) -> SetParametersResult:
        """Let nobody else change a budget; a new scenario must exist, and is then followed at the next heartbeat."""
        mine = getattr(self._steering, "active", False)
        taken = [item.name for item in given if item.name in BUDGET_NAMES]
        if taken and not mine:
            reason = f"{taken[0]} is chosen by {self.NAME} alone; set scenario instead"
            return SetParametersResult(successful=False, reason=reason)
        for item in given:
            if item.name == "scenario":
                try:
                    self.stage = BudgetStage(self._policy(item.value))
                except ValueError as error:
                    return SetParametersResult(successful=False, reason=str(error))
                self.gain_db = None
        return SetParametersResult(successful=True)

    def _policy(self, scenario: str) -> Any:
        return select_policy(scenario, self.config.scenarios_file or None)

    def _declare_budgets(self) -> None:
        policy = self.stage.policy
        fixed: dict[str, Any] = {"location_branch": policy.location_branch, "grid_size": policy.grid_size}
        fixed["location_scale"] = policy.scale
        self._steering.active = True
        try:
            for name, value in {**UNKNOWN, **fixed}.items():
                descriptor = ParameterDescriptor(description=ABOUT[name])
                self.declare_parameter(name, value, descriptor, ignore_override=True)
        finally:
            self._steering.active = False

    def _on_gain(self, message: Float32) -> None:
        self._heard = time.monotonic()
        if message.data != self.gain_db:
            self._solve(float(message.data))

    def _on_heartbeat(self) -> None:
        if self.point is None or time.monotonic() - self._heard > self.config.max_gain_age_s:
            return
        self._steer(self.point)

    def _solve(self, gain_db: float) -> None:
        with self.timed("budget") as taken:
            point = self.stage(gain_db)
        self.counts["frames"] += 1
        self.point = point
        self.gain_db = gain_db  # last: whoever sees the new gain sees its point, too
        self._steer(point)
        self.give("budget/utility", Float32(data=float(point.utility)))
        self.tell("budget", 0, gain_db=gain_db, utility=float(point.utility), status=point.status, stage_ms=taken)

    def _steer(self, point: OperatingPoint) -> None:
        budgets = self.stage.budgets(point, 0)
        chosen = [Parameter(name, value=getattr(budgets, name)) for name in BUDGET_NAMES]
        self._steering.active = True
        try:
            verdict = self.set_parameters_atomically(chosen)
        finally:
            self._steering.active = False
        if not verdict.successful:
            self.get_logger().error(f"budget not set: {verdict.reason}", throttle_duration_sec=5.0)


def main() -> None:
    """Run the node as a process."""
    leave(run(BudgetServerNode, BudgetServerNode.NAME))


if __name__ == "__main__":
    main()
