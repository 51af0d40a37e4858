"""What does not fit together on this computer: versions that import, and then crash or run a hundred times too slow.

Asked once when a node is configured; each misfit is a line in the log and in diagnostics. Versions are read from the
metadata of what is installed and from what is already imported, so asking imports nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Distributions of which the version counts; ``opencv-python`` stands for its headless kind, too.
PACKAGES = ("numpy", "torch", "torchvision", "opencv-python", "cv-bridge")
#: Distributions of ROS 2 whose cv_bridge is compiled against NumPy 1 (vision_opencv issue 535).
NUMPY_1 = ("humble", "jazzy")
_PYTHONS = {"humble": (3, 10), "jazzy": (3, 12), "kilted": (3, 12)}
_TEGRA = Path("/etc/nv_tegra_release")


@dataclass(frozen=True)
class Installation:
    """What is installed here: versions by distribution name, the ROS distribution, the machine."""

    versions: Mapping[str, str] = field(default_factory=dict)
    ros_distro: str = ""
    python: tuple[int, int] = (3, 10)
    jetson: bool = False
    #: Version of CUDA that torch was built for, empty for none, None where torch was not imported.
    torch_cuda: str | None = None
    cuda_seen: bool | None = None


def this_installation() -> Installation:
    """Return what is installed here."""
    torch = sys.modules.get("torch")
    cuda = None if torch is None else str(torch.version.cuda or "")
    seen = None if torch is None else bool(torch.cuda.is_available())
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    distro = os.environ.get("ROS_DISTRO", "")
    return Installation(versions, distro, sys.version_info[:2], _TEGRA.exists(), cuda, seen)


def misfits(here: Installation) -> list[str]:
    """Return a line for each thing that does not fit, with its remedy; none when all is well."""
    return [text for check in (_python, _cv_bridge, _torchvision, _cuda) if (text := check(here))]


def _python(here: Installation) -> str:
    wanted = _PYTHONS.get(here.ros_distro)
    if wanted is None or wanted == here.python:
        return ""
    return (
        f"Python {_dotted(here.python)} with ROS 2 {here.ros_distro}, whose rclpy is built for {_dotted(wanted)}: "
        f"run the node with python{_dotted(wanted)}"
    )


def _cv_bridge(here: Installation) -> str:
    numpy, opencv = here.versions.get("numpy", ""), here.versions.get("opencv-python", "")
    if here.ros_distro in NUMPY_1 and _major(numpy) >= 2:
        return (
            f"NumPy {numpy} with the cv_bridge of {here.ros_distro}, which is compiled against NumPy 1 and fails "
            "in whatever imports it: pip install 'numpy<2'"
        )
    if here.ros_distro in NUMPY_1 and _numbers(opencv) >= (4, 12):
        return (
            f"opencv-python {opencv} wants NumPy 2, cv_bridge of {here.ros_distro} NumPy 1: "
            "pip install 'opencv-python<4.12'"
        )
    if here.versions.get("cv-bridge") and _numbers(numpy) >= (2, 3):
        return f"NumPy {numpy} with cv-bridge {here.versions['cv-bridge']} from PyPI: pip install 'numpy<2.3'"
    return ""


def _torchvision(here: Installation) -> str:
    torch, vision = here.versions.get("torch", ""), here.versions.get("torchvision", "")
    wanted = fitting_torchvision(torch)
    if not vision or not wanted or _numbers(vision)[:2] == _numbers(wanted):
        return ""
    return f"torchvision {vision} with torch {torch}, which goes with {wanted}: install the pair from one index"


def _cuda(here: Installation) -> str:
    torch = here.versions.get("torch", "")
    if not here.jetson or not torch or here.torch_cuda is None:
        return ""
    if not here.torch_cuda:
        return f"torch {torch} without CUDA on a Jetson: install NVIDIA's wheel for this JetPack (docs/jetson.md)"
    if here.cuda_seen is False:
        return f"torch {torch} is built for CUDA {here.torch_cuda}, which finds no GPU on this Jetson (docs/jetson.md)"
    return ""


def fitting_torchvision(torch: str) -> str:
    """Return ``major.minor`` of the torchvision that is released with a torch, empty for one that is not known.

    From torch 1.8 and torchvision 0.9 on, and from 2.0 and 0.15 on, their minor versions have grown together.
    """
    major, minor = (*_numbers(torch), 0, 0)[:2]
    if major == 2:
        return f"0.{15 + minor}"
    return f"0.{minor + 1}" if (major, minor) >= (1, 8) and major == 1 else ""


def _version(name: str) -> str:
    names = (name, f"{name}-headless", f"{name}-contrib") if name == "opencv-python" else (name,)
    for one in names:
        try:
            return importlib.metadata.version(one)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with; none for a version that begins otherwise."""
    begin = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in begin.group().split(".")) if begin else ()


def _major(version: str) -> int:
    return (*_numbers(version), 0)[0]


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(str(part) for part in version)
