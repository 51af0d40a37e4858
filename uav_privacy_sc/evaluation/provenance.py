"""What numbers depend on besides their arguments: the contents of profile, dataset, weights and this package's code.

A folder of results remembers them. With anything else it is refused, so that no number is taken for one of this run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation.own_attackers import source_of
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.graph import config_file

FILE = "made-with.json"
_WORDS = {
    "profile_sha256": "another content of the profile",
    "dataset_sha256": "another content of the dataset",
    "code_sha256": "other code of this package",
    "weights_sha256": "other weights",
    "attackers_sha256": "another content of the attackers' modules",
}


def made_with(setting: Setting, out: Path) -> dict[str, Any]:
    """Return the digests of all that decides numbers; the results in ``out`` are no part of a dataset around them."""
    return {
        "profile_sha256": hashlib.sha256(config_file(setting.profile).read_bytes()).hexdigest(),
        "dataset_sha256": _digest(_listing(Path(setting.dataset).expanduser(), out.resolve())),
        "code_sha256": code_digest(),
        "weights_sha256": setting.networks.checksums(),
        "attackers_sha256": [_file_digest(source_of(name)) for name in setting.attackers],
    }


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the digest of all Python files of this package."""
    root = Path(__file__).resolve().parents[1]
    files = sorted(root.rglob("*.py"))
    return _digest(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)


def _file_digest(path: Path | None) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None


def _listing(path: Path, out: Path) -> Iterator[str]:
    """Yield name, size and time of change of every file; nothing for what is no path, such as ``synthetic``."""
    if path.is_file():
        yield _entry(path, path.name)
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if (Path(folder) / name).resolve() != out)
        for name in sorted(files):
            whole = Path(folder) / name
            yield _entry(whole, str(whole.relative_to(path)))


def _entry(path: Path, name: str) -> str:
    found = path.lstat()
    return f"{name} {found.st_size} {found.st_mtime_ns}"


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


def refuse_another(out: Path, setting: Setting, made: dict[str, Any]) -> None:
    """Refuse a folder that holds results of other arguments, or made with other contents.

    Raises:
        ValueError: it does; one line that names each difference.
    """
    try:
        before = json.loads((out / "cache" / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    now = _record(setting, made)
    differ = [
        f"{name} {_short(before['setting'].get(name))} instead of {_short(value)}"
        for name, value in now["setting"].items()
        if before["setting"].get(name) != value
    ]
    differ += [_WORDS[name] for name, value in now["made_with"].items() if before["made_with"].get(name) != value]
    if differ:
        raise ValueError(
            f"out folder {out} holds results made with {', '.join(differ)}; give another folder, or remove it to "
            "measure anew"
        )


def remember(out: Path, setting: Setting, made: dict[str, Any]) -> None:
    """Write down what the results of a folder are made with.

    Raises:
        OSError: it cannot be written.
    """
    path = out / "cache" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_record(setting, made), indent=2) + "\n", encoding="utf-8")


def _record(setting: Setting, made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps({"setting": setting.as_dict(), "made_with": made}))
    return found


def _short(value: Any) -> str:
    return str(value["name"]) if isinstance(value, dict) and "name" in value else repr(value)
