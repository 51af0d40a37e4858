"""What a run was made with, as a file beside its results."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from uav_privacy_sc import __version__
from uav_privacy_sc.evaluation.execution import Execution
from uav_privacy_sc.evaluation.setting import SampleStore, Setting

_PACKAGES = ("numpy", "scipy", "torch", "torchvision", "ultralytics", "opencv-python", "scikit-image", "joblib")
FILE = "manifest.json"
_SAME = ("profile_sha256", "dataset_sha256", "code_sha256", "weights_sha256", "attackers_sha256")


def manifest(
    setting: Setting,
    store: SampleStore | None,
    execution: Execution,
    made: dict[str, Any],
    protocols: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return arguments, seeds, versions, checksums of weights, dataset and what each protocol came to."""
    found: dict[str, Any] = {
        "version": __version__,
        "setting": setting.as_dict(),
        "scale": setting.preset.about,
        "backend": {"name": execution.backend, "jobs": execution.jobs},
        **made,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "protocols": protocols,
    }
    if store is not None:
        people, samples = store.people()
        dataset = {"name": store.dataset.name, "kind": store.kind, "samples": samples, "with_people": people}
        found["dataset"] = {**dataset, "notes": store.notes}
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write(folder: Path, found: dict[str, Any]) -> Path:
    """Write the manifest below a folder, whole or not at all; protocols that were run before with the same stay in it.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / FILE
    found["protocols"] = {**_earlier(path, found), **found["protocols"]}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def _earlier(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return the protocols of the manifest that is there, if it was made with the same arguments and weights."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        plain = json.loads(json.dumps(found))
        same = all(before[name] == plain[name] for name in ("version", "setting", *_SAME))
        return dict(before["protocols"]) if same else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
