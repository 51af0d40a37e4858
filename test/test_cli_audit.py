"""The verb ``audit``: claims that hold, the one that is known not to, and one that breaks unannounced."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from uav_privacy_sc.cli import main
from uav_privacy_sc.commands import audit as command
from uav_privacy_sc.privacy.audit import subjects

QUICK = ["--samples", "20000", "--seed", "5"]


def _audit(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict]]:
    status = main(["audit", "--json", *QUICK, *words])
    return status, json.loads(capsys.readouterr().out)["audits"]


def test_every_mechanism_is_audited_and_holds(capsys) -> None:
    status, audits = _audit(capsys)
    assert status == 0
    assert [entry["mechanism"] for entry in audits] == list(subjects())
    assert all(entry["verdict"] == "holds" and entry["lower_epsilon"] <= 1.0 for entry in audits)
    assert sum(entry["lower_epsilon"] > 0.05 for entry in audits) > len(audits) / 2, "an audit that finds nothing"


def test_classical_at_20_is_shown_to_break_its_claim_and_that_is_announced(capsys) -> None:
    status, (entry,) = _audit(capsys, "--mechanism", "classical", "--epsilon", "20", "--samples", "50000")
    assert entry["real_epsilon"] == pytest.approx(25.44, abs=0.01)
    assert 20.0 < entry["gaussian_epsilon"] < 25.45
    assert (entry["holds"], entry["sound"], entry["verdict"]) == (False, True, "broken, as announced")
    assert status == 0


def test_a_breach_that_nobody_announced_is_a_failure(capsys, monkeypatch) -> None:
    monkeypatch.setattr(command, "expected_epsilon", lambda mechanism, epsilon, delta: epsilon)
    status, (entry,) = _audit(capsys, "--mechanism", "classical", "--epsilon", "20", "--samples", "50000")
    assert (status, entry["verdict"]) == (1, "CLAIM BROKEN")


def test_the_table_names_claim_bound_and_verdict(capsys) -> None:
    words = ["audit", *QUICK, "--mechanism", "grid", "--mechanism", "label", "--mechanism", "grid"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "seeded noise" in printed and "one grid step apart" in printed
    assert sum("holds" in line for line in printed.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--mechanism", "magic"), "'magic'"),
        (("--epsilon", "0"), "epsilon"),
        (("--epsilon", "nan"), "epsilon"),
        (("--delta", "1"), "delta"),
        (("--confidence", "1"), "confidence is 1"),
        (("--samples", "10"), "samples"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(words: Sequence[str], named: str, capsys) -> None:
    assert main(["audit", *words]) == 2
    printed = capsys.readouterr().err
    assert named in printed and printed.count("\n") == 1
