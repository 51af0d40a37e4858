"""The link: the air between the aircraft and the ground, and the one process with a context in both DDS domains."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context
from rclpy.node import Node
from std_msgs.msg import Float32

from uav_privacy_sc.graph import DISCOVERY_RANGE, GROUND, TOPICS
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.budget_follower import BudgetFollower
from uav_privacy_sc.nodes.conversion import (
    link_record_to_message,
    lost_tensor_to_message,
    objects_from_message,
    objects_to_message,
    stamp_ns,
    tensor_from_message,
    tensor_to_message,
)
from uav_privacy_sc.nodes.join import StampJoin
from uav_privacy_sc.nodes.lattice_follower import LatticeFollower
from uav_privacy_sc.nodes.link_parameters import SAME_DOMAIN, LinkParameters
from uav_privacy_sc.nodes.position_follower import PositionFollower
from uav_privacy_sc.nodes.process import discovery, leave, network_transport, run
from uav_privacy_sc.pipeline import LinkStage, Reception, Transmission

ANNOUNCE_PERIOD_S = 0.5


class LinkNode(StageNode[LinkParameters]):
    """Wraps ``pipeline.LinkStage``; the ground domain gets what the channel has done to ``tx/*``, and nothing else."""

    NAME = "link"
    Config = LinkParameters

    def __init__(self, stage: LinkStage | None = None, **options: Any) -> None:
        super().__init__(**options)
        route = self.config.route()
        self.stage = self.config.stage(route) if stage is None else stage
        self._position = self._follow_position(route) if self.config.position_topic else None
        self._ground_context: Context | None = None
        self._ground_half = self._reach_ground()
        for name in self.spec.gives:
            self.create_outputs(name, on=self._ground_half if TOPICS[name].domain == GROUND else None)
        self.follower = BudgetFollower(self, lambda: self.tell("followed", 0))
        self._snr_db: tuple[float, float] | None = None
        self.lattice = LatticeFollower(self, "tx/lattice_step")
        self._join = StampJoin(self._on_release, lambda stamp: self.drop("half a frame", stamp))
        self.take("tx/objects", self._join.first)
        self.take("tx/features", self._join.second)
        self.create_timer(ANNOUNCE_PERIOD_S, self.announce, clock=self.steady_clock)
        self.announce()

    def announce(self) -> None:
        """Tell the gain that the next block will have, now and regularly, so that budgets stay confirmed."""
        self.give("link/ground/gain_db", Float32(data=self.stage.gain_db))

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the state of the channel."""
        values: dict[str, Any] = {"ground_gain_db": self.stage.gain_db}
        values["ground_domain_id"] = self.config.ground_domain_id
        values["coding"] = self.stage.coding
        if self._snr_db is not None:
            values |= {"ground_snr_db": self._snr_db[0], "eve_snr_db": self._snr_db[1]}
        if self._position is None:
            return True, "on the air", values
        values["position_age_s"] = self._position.age_s
        fault = self._position.fault
        return fault is None, fault or "on the air", values

    def close(self) -> None:
        """Take down the ground half, too."""
        if self._ground_half is not self:
            self._ground_half.destroy_node()
        super().close()
        if self._ground_context is not None:
            self._ground_context.try_shutdown()

    def _follow_position(self, route: Any) -> PositionFollower:
        config = self.config
        return PositionFollower(self, config.position_topic, config.position_type, config.origin, route)

    def _reach_ground(self) -> Node:
        """Return the node that publishes in the ground domain: silent but for what has crossed the channel."""
        if self.config.ground_domain_id == SAME_DOMAIN:
            return self
        if self.config.ground_domain_id == self.context.get_domain_id():
            raise ValueError(
                f"parameter ground_domain_id is {self.config.ground_domain_id}, the domain on board: there would be no "
                f"air gap; give another, or {SAME_DOMAIN} to do without"
            )
        self._ground_context = Context()
        with discovery(DISCOVERY_RANGE[GROUND]):
            self._ground_context.init(domain_id=self.config.ground_domain_id)
        overrides = [item for name, item in self._parameter_overrides.items() if name.startswith("qos_overrides.")]
        with network_transport(DISCOVERY_RANGE[GROUND]):
            return Node(
                self.NAME,
                context=self._ground_context,
                namespace=self.get_namespace(),
                use_global_arguments=False,
                enable_rosout=False,
                start_parameter_services=False,
                parameter_overrides=overrides,
            )

    def _on_release(self, objects_message: Any, features_message: Any) -> None:
        stamp, budgets = stamp_ns(features_message.header), self.follower.budgets
        objects = objects_from_message(objects_message)
        features = tensor_from_message(features_message, self.lattice.step)
        if budgets is None or objects is None:
            self.drop("not sent", stamp, "no transmit power yet" if budgets is None else "no objects")
            return
        with self.timed("link") as taken:
            sent = self.stage(features, objects, budgets.p_tx, stamp, self.lattice.step)
        self.counts["frames"] += 1
        self._snr_db = (sent.ground.snr_db, sent.eve.snr_db)
        self._tell_sent(stamp, sent, taken)
        record = sent.record(stamp, budgets.p_tx, self.stage.coding)
        self.give("link/record", link_record_to_message(record, features_message.header))
        self._deliver("ground", sent.ground, features_message.header)
        self._deliver("eve", sent.eve, features_message.header)
        self.announce()

    def _tell_sent(self, stamp: int, sent: Transmission, taken: dict[str, float]) -> None:
        self.tell(
            "sent",
            stamp,
            gain_db=sent.ground_gain_db,
            distance_m=sent.distance_m,
            payload=sent.payload,
            ground_snr_db=sent.ground.snr_db,
            eve_snr_db=sent.eve.snr_db,
            eve_features=sent.eve.features,
            eve_objects=sent.eve.objects,
            stage_ms=taken,
        )

    def _deliver(self, party: str, received: Reception, header: Any) -> None:
        step = self.lattice.step if self.stage.coding == "packet" else 0.0
        if received.features is None:
            features = lost_tensor_to_message(received.shape, header, step)
        else:
            features = tensor_to_message(received.features, header, step)
        self.give(f"{party}/rx/lattice_step", self.lattice.message)
        self.give(f"{party}/rx/objects", objects_to_message(received.objects, header))
        self.give(f"{party}/rx/features", features)
        self.give(f"link/{party}/snr_db", Float32(data=received.snr_db))


def main() -> None:
    """Run the node as a process."""
    leave(run(LinkNode, LinkNode.NAME))


if __name__ == "__main__":
    main()
