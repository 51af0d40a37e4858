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
from uav_privacy_sc.control.pacing import frame_epsilon, squeezed
from uav_privacy_sc.control.policy import ScenarioPolicy, inherited_values, load_policies, select_policy
from uav_privacy_sc.control.tracking import TrackingConfig
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import leave, run
from uav_privacy_sc.pipeline import BudgetStage
from uav_privacy_sc.release import BUDGET_NAMES, Budgets

ABOUT = {
    "epsilon_v": "visual budget of the next frame, chosen by this node alone; 0 until the channel is known",
    "epsilon_l": "location budget of the next frame, chosen by this node alone; 0 until the channel is known",
    "p_tx": "transmit power of the next frame in watts, chosen by this node alone; 0 until the channel is known",
    "location_branch": "location mechanism of the scenario: grid or planar_laplace",
    "grid_size": "cells along each axis of the location grid",
    "location_scale": "units of planar Laplace to the side of the picture",
}
_STEPS = TrackingConfig()
UNKNOWN = {"epsilon_v": 0.0, "epsilon_l": 0.0, "p_tx": 0.0}


@dataclass(frozen=True)
class BudgetServerConfig:
    """Parameters of the budget server that others may set."""

    scenario: str = parameter("surveillance", "policy to follow", read_only=False)
    scenarios_file: str = parameter("", "YAML file with further policies; empty for the shipped ones")
    heartbeat_s: float = parameter(0.5, "how often the budget is confirmed", low=0.05, high=60.0)
    max_gain_age_s: float = parameter(2.0, "how old the gain may be for a confirmation", low=0.1, high=3600.0)
    gain_memory: float = parameter(_STEPS.gain_memory, "weight of the past in the gain", low=0.0, high=0.999)
    budget_step: float = parameter(
        _STEPS.budget_step,
        "most that budgets move from block to block, in epsilon_total; 1 for no bound",
        low=1e-3,
        high=1,
    )
    budget_dead_band: float = parameter(_STEPS.budget_dead_band, "what budgets do not move for", low=0.0, high=1.0)
    power_step_db: float = parameter(
        _STEPS.power_step_db, "most that power moves from block to block, in dB; 300 for no bound", low=0.01, high=300.0
    )
    power_dead_band_db: float = parameter(
        _STEPS.power_dead_band_db, "what power does not move for", low=0.0, high=300.0
    )
    enforce_ceiling: bool = parameter(True, "as protection's: whether there is a mission ceiling")
    epsilon_ceiling: float = parameter(1000000.0, "as protection's: mission epsilon to last", low=1e-3, high=1e12)
    expected_frames: int = parameter(0, "as protection's: frames that it is to last for; 0: no pace", low=0, high=10**9)
    delta: float = parameter(1e-5, "as protection's: failure probability of the ceiling", low=1e-12, high=1e-2)

    def stage(self, scenario: str) -> BudgetStage:
        """Build the stage for a scenario.

        Raises:
            ValueError: there is no such scenario, steps and dead bands do not fit, or the ceiling is too low for its
                frames.
        """
        tracking = TrackingConfig(
            self.gain_memory, self.budget_step, self.budget_dead_band, self.power_step_db, self.power_dead_band_db
        )
        return BudgetStage(self._paced(select_policy(scenario, self.scenarios_file or None)), tracking)

    def _paced(self, policy: ScenarioPolicy) -> ScenarioPolicy:
        """Bound epsilon_total by a frame's even share of the ceiling, for a cell and a place in every frame.

        The share follows from the configuration alone. What is left of the ceiling does not come in: that goes by how
        large the objects in the pictures were, and the budgets show in the strength of the noise. The scenario may
        change in flight wherever there is more than one.
        """
        if not (self.enforce_ceiling and self.expected_frames):
            return policy
        alone = len(load_policies(self.scenarios_file or None)) == 1
        share = frame_epsilon(policy, self.epsilon_ceiling, self.delta, self.expected_frames, alone)
        return squeezed(policy, share)


class BudgetServerNode(StageNode[BudgetServerConfig]):
    """Wraps ``pipeline.BudgetStage``. A budget is confirmed for as long as the link tells its gain, then goes stale.

    A gain that differs from the one before is that of a new block, and moves budgets by one step; the same one again
    is a repetition, of which the link sends as many as time passes, and moves nothing: steps go by blocks, never by
    the clock. Where the channel stands still the link tells new blocks apart by the last bits of the number
    (``pipeline.LinkStage.gain_db``). A new scenario is solved for at once, at the last gain.
    """

    NAME = "budget_server"
    Config = BudgetServerConfig

    def __init__(self, stage: BudgetStage | None = None, **options: Any) -> None:
        self._steering = threading.local()
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self._scenario = self.config.scenario
        self.stage = stage or self._begin(self._scenario)
        self.point: OperatingPoint | None = None
        self.gain_db: float | None = None
        self._budgets: Budgets | None = None
        self._heard = -math.inf
        self._judged = False  # a scenario was judged; whether it was set is not read yet
        self._waiting: float | None = None  # a gain heard meanwhile
        self._owed = False  # a scenario is followed that nothing was solved for yet
        self._declare_budgets()
        self.take("link/ground/gain_db", self._on_gain)
        # Parameters cannot be set while parameters are being set, and Humble has no callback for the time after.
        self._scenario_changed = self.create_guard_condition(self._on_scenario)
        self.create_timer(self.config.heartbeat_s, self._on_heartbeat, clock=self.steady_clock)

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the operating point."""
        if self.point is None:
            return False, "no gain from the link yet", {}
        values: dict[str, Any] = {name: getattr(self.point, name) for name in UNKNOWN}
        values |= {"utility": self.point.utility, "gain_db": self.gain_db, "solver": self.point.status}
        values["epsilon_total"] = self.stage.policy.epsilon_total
        fresh = self._fresh()
        return fresh, "steering" if fresh else "the link has fallen silent", values

    def judge(self, given: list[Parameter]) -> SetParametersResult:
        """Let nobody else change a budget; a new scenario must exist, and is then followed at once."""
        mine = getattr(self._steering, "active", False)
        taken = [item.name for item in given if item.name in BUDGET_NAMES]
        if taken and not mine:
            reason = f"{taken[0]} is chosen by {self.NAME} alone; set scenario instead"
            return SetParametersResult(successful=False, reason=reason)
        scenarios = [item.value for item in given if item.name == "scenario"]
        try:
            for scenario in scenarios:
                self.config.stage(scenario)
        except ValueError as error:
            return SetParametersResult(successful=False, reason=str(error))
        if scenarios:
            self._judged = True  # from here on no budget of the scenario before is confirmed
            self._scenario_changed.trigger()
        return SetParametersResult(successful=True)

    def _begin(self, scenario: str) -> BudgetStage:
        stage = self.config.stage(scenario)
        inherited = inherited_values(scenario, self.config.scenarios_file or None)
        if inherited:
            self.get_logger().info(f"scenario {scenario} leaves out, so as shipped: {inherited}")
        return stage

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
        gain_db = float(message.data)
        if not math.isfinite(gain_db):
            raise ValueError(f"gain_db is {gain_db!r}; the budget before stays until it is stale")
        self._heard = time.monotonic()
        if self._judged:
            self._waiting = gain_db
        elif gain_db != self.gain_db or self._owed:
            self._solve(gain_db)

    def _on_scenario(self) -> None:
        """Follow the scenario that the parameter now names.

        It is solved for now or, when the link is silent, as soon as it is heard again: to set budgets is to confirm
        them. The parameter is read here and not while it was judged, as a set that is judged may still be refused. One
        that names the scenario of before changes nothing: steps go on as bounded as they were.
        """
        scenario = self.get_parameter("scenario").value
        if scenario != self._scenario:
            self.stage, self._scenario, self._owed = self._begin(scenario), scenario, True
        gain_db = self.gain_db if self._waiting is None else self._waiting
        self._judged, self._waiting = False, None
        if gain_db is not None and self._fresh() and (self._owed or gain_db != self.gain_db):
            self._guarded(self._solve, gain_db)

    def _on_heartbeat(self) -> None:
        if self._budgets is not None and self._fresh() and not (self._judged or self._owed):
            self._steer(self._budgets)

    def _fresh(self) -> bool:
        return time.monotonic() - self._heard <= self.config.max_gain_age_s

    def _solve(self, gain_db: float) -> None:
        with self.timed("budget") as taken:
            point = self.stage(gain_db)
        self._owed = False
        self.counts["frames"] += 1
        self.point, self._budgets = point, self.stage.budgets(point, 0)
        self.gain_db = gain_db  # last: whoever sees the new gain sees its point, too
        self._steer(self._budgets)
        self.give("budget/utility", Float32(data=float(point.utility)))
        self.tell("budget", 0, gain_db=gain_db, utility=float(point.utility), status=point.status, stage_ms=taken)

    def _steer(self, budgets: Budgets) -> None:
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
