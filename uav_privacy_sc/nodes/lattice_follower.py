"""Follow the lattice step: without it features in whole steps (``16SC<C>``) cannot be read."""

from __future__ import annotations

from typing import Any

from std_msgs.msg import Float32

from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.privacy.lattice import check_step


class LatticeFollower:
    """Holds the newest step of a topic in ``step``: 0 until there is one, and where features are no whole steps.

    The step is public: a constant of the configuration that no picture has any part in. So it may cross the air gap,
    where the record of a release may not.
    """

    def __init__(self, node: StageNode[Any], topic: str) -> None:
        self.step = 0.0
        node.take(topic, self._on_step)

    @property
    def message(self) -> Float32:
        """The step as a message, to pass on."""
        return Float32(data=self.step)

    def _on_step(self, message: Float32) -> None:
        self.step = check_step(message.data) if message.data else 0.0
