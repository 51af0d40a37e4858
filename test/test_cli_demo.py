"""The demo itself, through real nodes, networks and topics; and what Ctrl-C leaves of it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("rclpy", reason="rclpy is not installed")


def _demo(out: Path, *options: str) -> subprocess.Popen:
    words = [sys.executable, "-m", "uav_privacy_sc", "demo", "--out", str(out), *options]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_demo_flies_and_keeps_everything_from_before_protection_out_of_its_bag(tmp_path: Path) -> None:
    from rosbags.highlevel import AnyReader

    demo = _demo(tmp_path / "out", "--frames", "4", "--json", "--seed", "5", "--device", "cpu")
    printed, complaints = demo.communicate(timeout=200)
    assert demo.returncode == 0, complaints
    summary = json.loads(printed)
    assert summary["frames"]["decoded"] == summary["frames"]["in"] == 4
    for case in ("with_protection", "without_protection", "blind"):
        assert summary["eavesdropper"][case]["ssim"] is not None
    assert summary["ground"]["category_accuracy"] is not None
    assert summary["configuration"]["parameters"]["link"]["trajectory"].endswith("trajectories/demo.csv")
    assert all(summary["stage_ms"][stage]["p50"] is not None for stage in summary["stage_ms"])
    assert "<article" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    with AnyReader([tmp_path / "out" / "bag"]) as bag:
        topics = {connection.topic.split("/")[1] for connection in bag.connections}
    assert {"tx", "ground", "eve", "link"} <= topics <= {"tx", "ground", "eve", "link", "budget"}


def test_ctrl_c_writes_what_was_measured_so_far_and_is_no_failure(tmp_path: Path) -> None:
    demo = _demo(tmp_path / "out", "--device", "cpu")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not _recorded(tmp_path / "out" / "bag"):
        time.sleep(0.1)
    demo.send_signal(signal.SIGINT)
    printed, complaints = demo.communicate(timeout=120)
    assert demo.returncode == 0, complaints
    assert "Traceback" not in complaints
    summary = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert summary["interrupted"] is True and 0 < summary["frames"]["in"] < 80
    assert f"interrupted after {summary['frames']['in']} frames" in complaints
    assert len(printed.splitlines()) == 10


def _recorded(bag: Path) -> bool:
    """Whether a few frames have been recorded: a frame takes about half a megabyte."""
    return any(file.stat().st_size > 2_000_000 for file in bag.glob("*.mcap"))


def test_results_that_cannot_be_written_are_printed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from uav_privacy_sc.cli import main
    from uav_privacy_sc.commands import fly

    def full(path: Path, summary: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fly, "write_metrics", full)
    assert main(["demo", "--frames", "2", "--out", str(tmp_path / "out"), "--device", "cpu"]) == 1
    printed = capsys.readouterr()
    assert "do not fit into" in printed.err and "No space left on device" in printed.err
    assert "2 decoded" in printed.out and "report.html" not in printed.out
