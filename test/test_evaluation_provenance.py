"""A folder of results is gone on with by the same arguments and contents alone, and an error names what failed."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fake_networks import FakeNetworks

from uav_privacy_sc.commands.evaluate import _said
from uav_privacy_sc.evaluation import provenance
from uav_privacy_sc.evaluation.presets import PRESETS
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.graph import config_file


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    profile, dataset = tmp_path / "profile.yaml", tmp_path / "data"
    profile.write_text(config_file("hardened").read_text())
    (dataset / "annotations").mkdir(parents=True)
    (dataset / "annotations" / "a.txt").write_text("1,2,3,4,1,1,0,0\n")
    return Setting(str(dataset), 2, 1, str(profile), PRESETS["quick"], FakeNetworks())


def _again(setting: Setting, out: Path) -> None:
    provenance.refuse_another(out, setting, provenance.made_with(setting, out))


def test_the_same_goes_on_and_results_inside_the_dataset_are_no_change_of_it(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "data" / "out"
    provenance.remember(out, setting, provenance.made_with(setting, out))
    _again(setting, out)


def test_each_change_is_refused_in_one_line_that_names_it(setting: Setting, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "out"
    provenance.remember(out, setting, provenance.made_with(setting, out))
    with pytest.raises(ValueError, match="samples 2 instead of 3, preset quick instead of standard; give") as error:
        _again(replace(setting, samples=3, preset=PRESETS["standard"]), out)
    assert "\n" not in str(error.value)
    Path(setting.profile).write_text(config_file("paper").read_text())
    (tmp_path / "data" / "annotations" / "a.txt").write_text("9,2,3,4,1,1,0,0\n1,2,3,4,1,1,0,0\n")
    monkeypatch.setattr(provenance, "code_digest", lambda: "other")
    with pytest.raises(ValueError) as error:
        _again(setting, out)
    for words in ("content of the profile", "content of the dataset", "code of this package"):
        assert words in str(error.value)


def test_the_code_has_one_digest() -> None:
    assert len(provenance.code_digest()) == 64 and provenance.code_digest() == provenance.code_digest()


def test_only_errors_of_the_out_folder_are_said_to_be_its(tmp_path: Path) -> None:
    inside = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "out" / "x.csv"))
    outside = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/data/picture.png")
    assert "out folder" in _said(inside, tmp_path / "out")
    assert _said(outside, tmp_path / "out") == "/data/picture.png: Permission denied"
    assert "out folder" in _said(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
