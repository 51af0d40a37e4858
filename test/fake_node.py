"""Run a node that needs a network as a process, with a stand-in for it: ``fake_node.py NAME --ros-args ...``."""

from __future__ import annotations

import importlib
import sys

from conftest import FakeStages

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.process import leave, run


def main(name: str) -> int:
    stage = FakeStages().by_node()[name]
    module = importlib.import_module(graph.NODES[name].module)
    node = getattr(module, f"{name.title()}Node")
    return run(lambda: node(stage=stage), name)


if __name__ == "__main__":
    leave(main(sys.argv[1]))
