"""The check at start: misfits of versions that have cost others a day, each in one line with its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rclpy.context import Context

from uav_privacy_sc.nodes import base
from uav_privacy_sc.nodes.link import LinkNode
from uav_privacy_sc.nodes.misfits import Installation, fitting_torchvision, misfits, this_installation

GOOD = {"numpy": "1.26.4", "torch": "2.5.0a0+872d972e41.nv24.08", "torchvision": "0.20.0a0+afc54f7"}
HUMBLE = {"versions": GOOD, "ros_distro": "humble", "python": (3, 10), "jetson": True}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"torch_cuda": "12.6", "cuda_seen": True}, None),
        ({"versions": {**GOOD, "numpy": "2.2.6"}}, "NumPy 2.2.6 with the cv_bridge of humble"),
        ({"versions": {**GOOD, "numpy": "2.2.6"}, "ros_distro": "kilted", "python": (3, 12)}, None),
        ({"versions": {**GOOD, "opencv-python": "4.12.0.88"}}, "opencv-python 4.12.0.88 wants NumPy 2"),
        ({"versions": {"cv-bridge": "1.13.0.post0", "numpy": "2.3.1"}, "ros_distro": ""}, "pip install 'numpy<2.3'"),
        ({"versions": {**GOOD, "torchvision": "0.21.0"}}, "goes with 0.20"),
        ({"torch_cuda": ""}, "without CUDA on a Jetson"),
        ({"torch_cuda": "", "jetson": False}, None),
        ({"torch_cuda": "12.6", "cuda_seen": False}, "finds no GPU"),
        ({"python": (3, 12)}, "Python 3.12 with ROS 2 humble"),
        ({"versions": {}}, None),
        ({"versions": {"numpy": "unknown", "torch": "main", "torchvision": "?"}}, None),
    ],
)
def test_a_misfit_is_one_line_that_names_it(changes: dict[str, Any], words: str | None) -> None:
    found = misfits(Installation(**{**HUMBLE, **changes}))
    assert len(found) == (words is not None)
    assert words is None or (words in found[0] and "\n" not in found[0])


@pytest.mark.parametrize(
    ("torch", "vision"), [("2.14.1", "0.29"), ("2.3.0", "0.18"), ("2.0.1+cu118", "0.15"), ("1.13.0", "0.14"), ("x", "")]
)
def test_torch_and_torchvision_are_released_in_pairs(torch: str, vision: str) -> None:
    assert fitting_torchvision(torch) == vision


def test_what_is_installed_here_fits() -> None:
    here = this_installation()
    assert here.versions["numpy"] and misfits(here) == []


@pytest.fixture
def context(domains: tuple[int, int]) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=domains[0])
    yield context
    context.try_shutdown()


def test_a_misfit_is_in_diagnostics(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "this_installation", lambda: Installation(**{**HUMBLE, "torch_cuda": ""}))
    node = LinkNode(context=context, use_global_arguments=False)
    try:
        level, text, _ = node._condition()
        assert level == b"\x01" and "without CUDA on a Jetson" in text
    finally:
        node.end()
