"""The link: the air between the aircraft and the ground, and the one process with a context in both DDS domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rclpy.context import Context
from rclpy.node import Node
from std_msgs.msg import Float32

from uav_privacy_sc.graph import DISCOVERY_RANGE, GROUND, TOPICS
from uav_privacy_sc.link.config import FADINGS, LinkConfig
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.budget_follower import BudgetFollower
from uav_privacy_sc.nodes.conversion import (
    objects_from_message,
    objects_to_message,
    stamp_ns,
    tensor_from_message,
    tensor_to_message,
)
from uav_privacy_sc.nodes.join import StampJoin
from uav_privacy_sc.nodes.lattice_follower import LatticeFollower
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import discovery, leave, run
from uav_privacy_sc.pipeline import LinkStage, Reception

ANNOUNCE_PERIOD_S = 0.5
SAME_DOMAIN = -1
#: Keeps the channel's streams apart from those of a mechanism with the same seed.
SEED_KEY = 0x6C696E6B


@dataclass(frozen=True)
class LinkParameters:
    """Parameters of the link."""

    ground_domain_id: int = parameter(SAME_DOMAIN, "DDS domain of the ground; -1 for that on board", low=-1, high=232)
    distance_m: float = parameter(350.0, "slant range to the ground station", low=1.0, high=1e6)
    eavesdropper_distance_m: float = parameter(250.0, "slant range to the eavesdropper", low=1.0, high=1e6)
    path_loss_exponent: float = parameter(2.2, "of the distance", low=1.0, high=6.0)
    noise_figure_db: float = parameter(7.0, "of the receivers", low=0.0, high=60.0)
    fading: str = parameter("rayleigh", "small-scale fading", choices=FADINGS)
    link_seed: int = parameter(-1, "seed of fading and noise; -1 for none", low=-1, high=2**63 - 1)

    def stage(self) -> LinkStage:
        """Build the stage."""
        config = LinkConfig(
            distance_m=self.distance_m,
            eavesdropper_distance_m=self.eavesdropper_distance_m,
            path_loss_exponent=self.path_loss_exponent,
            noise_figure_db=self.noise_figure_db,
            fading=self.fading,
        )
        seeds = np.random.SeedSequence(None if self.link_seed < 0 else [SEED_KEY, self.link_seed]).spawn(2)
        ground, eve = (np.random.default_rng(seed) for seed in seeds)
        return LinkStage(config, ground, eve)


class LinkNode(StageNode[LinkParameters]):
    """Wraps ``pipeline.LinkStage``; the ground domain gets what the channel has done to ``tx/*``, and nothing else."""

    NAME = "link"
    Config = LinkParameters

    def __init__(self, stage: LinkStage | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.stage = self.config.stage() if stage is None else stage
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
        if self._snr_db is not None:
            values |= {"ground_snr_db": self._snr_db[0], "eve_snr_db": self._snr_db[1]}
        return True, "on the air", values

    def close(self) -> None:
        """Take down the ground half, too."""
        if self._ground_half is not self:
            self._ground_half.destroy_node()
        super().close()
        if self._ground_context is not None:
            self._ground_context.try_shutdown()

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
        return Node(
            self.NAME,
            context=self._ground_context,
            namespace=self.get_namespace(),
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )

    def _on_release(self, objects_message: Any, features_message: Any) -> None:
        stamp, budgets = stamp_ns(features_message.header), self.follower.budgets
        objects = objects_from_message(objects_message)
        features = tensor_from_message(features_message, self.lattice.step)
        if budgets is None or objects is None:
            self.drop("not sent", stamp, "no transmit power yet" if budgets is None else "no objects")
            return
        with self.timed("link") as taken:
            sent = self.stage(features, objects, budgets.p_tx)
        self.counts["frames"] += 1
        self._snr_db = (sent.ground.snr_db, sent.eve.snr_db)
        self.tell(
            "sent",
            stamp,
            gain_db=sent.ground_gain_db,
            ground_snr_db=sent.ground.snr_db,
            eve_snr_db=sent.eve.snr_db,
            eve_features=sent.eve.features,
            eve_objects=sent.eve.objects,
            stage_ms=taken,
        )
        self._deliver("ground", sent.ground, features_message.header)
        self._deliver("eve", sent.eve, features_message.header)
        self.announce()

    def _deliver(self, party: str, received: Reception, header: Any) -> None:
        self.give(f"{party}/rx/lattice_step", self.lattice.message)
        self.give(f"{party}/rx/objects", objects_to_message(received.objects, header))
        self.give(f"{party}/rx/features", tensor_to_message(received.features, header))
        self.give(f"link/{party}/snr_db", Float32(data=received.snr_db))


def main() -> None:
    """Run the node as a process."""
    leave(run(LinkNode, LinkNode.NAME))


if __name__ == "__main__":
    main()
