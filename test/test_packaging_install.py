"""What colcon installs: executables, launch and configuration files, weights; and that it runs from there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from uav_privacy_sc import __version__, graph

ROOT = Path(__file__).parents[1]
WEIGHTS_LIMIT = 12 * 2**20


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package with colcon in a workspace of its own and return the package's install prefix."""
    workspace = tmp_path_factory.mktemp("workspace")
    sources = workspace / "src" / graph.PACKAGE
    sources.mkdir(parents=True)
    for name in ("package.xml", "setup.py", "setup.cfg", "pyproject.toml"):
        shutil.copy2(ROOT / name, sources)
    for name in ("resource", "launch", "config", graph.PACKAGE):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    colcon = [sys.executable, "-m", "colcon", "--log-base", "log", "build", "--executor", "sequential"]
    built = subprocess.run(colcon, cwd=workspace, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return workspace / "install" / graph.PACKAGE


def test_every_node_is_an_executable_under_lib(installed: Path) -> None:
    executables = {path.name for path in (installed / "lib" / graph.PACKAGE).iterdir() if os.access(path, os.X_OK)}
    assert executables == {*graph.NODES, "uav-privacy-sc"}


def test_launch_and_configuration_are_under_share(installed: Path) -> None:
    share = installed / "share" / graph.PACKAGE
    assert (share / "package.xml").is_file()
    launched = {path.name for path in (ROOT / "launch").glob("*.launch.py")}
    assert {path.name for path in (share / "launch").iterdir()} == launched
    for name in ("uav_privacy_sc.rviz", "foxglove/uav_privacy_sc.json", "security/policy.xml"):
        assert (share / "config" / name).is_file()
    assert (share / "config" / "systemd" / "uav-privacy-sc.service").is_file()
    assert {path.name for path in (share / "config").glob("*.yaml")} >= {"hardened.yaml", "paper.yaml"}
    assert (installed / "share" / "ament_index" / "resource_index" / "packages" / graph.PACKAGE).exists()


def test_installed_code_finds_its_profiles_scenarios_and_weights(installed: Path, tmp_path: Path) -> None:
    code = """
import sys, uav_privacy_sc, uav_privacy_sc.graph as graph
from uav_privacy_sc.control.policy import load_policies
from uav_privacy_sc.perception.weights import locate
print(uav_privacy_sc.__file__, graph.config_file("hardened"), graph.config_file("paper"))
print(*load_policies())
print(*(locate(name, None) for name in ("detector.pt", "codec.pt", "inverter.pt")))
"""
    lines = subprocess.run(
        [sys.executable, "-c", code], env=_environment(installed), cwd=tmp_path, capture_output=True, text=True
    )
    assert lines.returncode == 0, lines.stderr
    code_and_profiles, policies, weights = lines.stdout.splitlines()
    assert all(path.startswith(str(installed)) for path in f"{code_and_profiles} {weights}".split())
    assert policies.split() == ["surveillance", "precision", "resource-limited"]


def test_an_installed_executable_runs(installed: Path, tmp_path: Path) -> None:
    camera = installed / "lib" / graph.PACKAGE / "camera"
    arguments = ["--ros-args", "-p", "source:=/no/such/place"]
    run = subprocess.run(
        [str(camera), *arguments], env=_environment(installed), cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (2, "camera: no such source: /no/such/place\n")


def _environment(installed: Path) -> dict[str, str]:
    """The environment that the workspace's setup file makes."""
    packages = next((installed / "lib").glob("python3*/site-packages"))
    path = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path, "AMENT_PREFIX_PATH": str(installed)}


def test_versions_agree() -> None:
    manifest = ElementTree.parse(ROOT / "package.xml").getroot()
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert manifest.findtext("version") == __version__
    assert f'version="{__version__}"' in setup


def test_the_manifest_names_every_ros_package_that_is_imported() -> None:
    manifest = ElementTree.parse(ROOT / "package.xml").getroot()
    declared = {item.text for item in manifest.iter("exec_depend")}
    sources = [*(ROOT / graph.PACKAGE).rglob("*.py"), *(ROOT / "launch").glob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    imported = set(re.findall(r"^\s*(?:from|import) (rclpy|launch_ros|launch|\w+_(?:msgs|interfaces))\b", code, re.M))
    assert imported and imported <= declared


def test_pins_hold_what_the_wheels_need() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {"numpy<2.3", "opencv-python<5"} <= set(pins)
    named = {re.split(r"[<>=~ ]", line)[0].lower() for line in pins if line and not line.startswith("#")}
    wanted = [
        line.strip().lower()
        for name in ("requirements-ros.txt",)
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert set(wanted) <= named


def test_shipped_weights_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / graph.PACKAGE / "weights").glob("*.pt")}
    assert set(sizes) == {"detector.pt", "codec.pt", "inverter.pt", "inverter-adaptive.pt"}
    assert sum(sizes.values()) <= WEIGHTS_LIMIT


def test_colcon_test_runs_pytest_and_not_an_empty_suite() -> None:
    """colcon takes pytest only where the package says that its tests need it."""
    testing = pytest.importorskip("colcon_core.task.python.test")
    setup_py = pytest.importorskip("colcon_python_setup_py.package_identification.python_setup_py")
    assert testing.has_test_dependency(setup_py.get_setup_information(ROOT / "setup.py"), "pytest")
