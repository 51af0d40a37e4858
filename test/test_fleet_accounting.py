"""Uploads of a fleet: in the ledger before they leave, the same bytes again, a ceiling, and what a report says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from uav_privacy_sc import cli
from uav_privacy_sc.commands.console import BadInput
from uav_privacy_sc.fleet.accounting import (
    CeilingReached,
    UploadAccount,
    UploadCost,
    UploadLost,
    fleet_spending,
    holds_uploads,
    ledger_path,
)
from uav_privacy_sc.privacy.accountant import BudgetExhausted, Expenditure, LedgerError, Odometer
from uav_privacy_sc.privacy.ledger import Ledger
from uav_privacy_sc.privacy.oneshot import OneshotLaplace, paper_epsilon

MECHANISM = OneshotLaplace(sigma_1=2.0, sigma_2=2.0, bound=1.0, step=2.0**-10)
COST = UploadCost(MECHANISM, "gradient", count=10, size=100, bound=1.0)
FEATURES = UploadCost(OneshotLaplace(2.0, 2.0, 0.5, 2.0**-10), "features", count=10, size=100, bound=1.0)


class Maker:
    """Makes another upload each time, and counts."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> bytes:
        self.made += 1
        return f"upload {self.made}".encode()


def _account(folder: Path, client: int = 3, **options) -> UploadAccount:
    return UploadAccount(ledger_path(folder, client), folder / "uploads", client, **options)


def test_an_upload_is_on_disk_and_in_the_ledger_when_it_leaves(tmp_path: Path) -> None:
    payload = _account(tmp_path).upload(0, COST, Maker(), "first")
    (row,) = Ledger(ledger_path(tmp_path, 3)).rows()
    assert payload == b"upload 1"
    assert (row["client"], row["round"], row["attempt"], row["strategy"]) == (3, 0, "first", "gradient")
    assert row["epsilon"] == pytest.approx(1.5)
    assert row["paper_epsilon"] == pytest.approx(paper_epsilon(10, 1.0, 100, 2.0, 2.0))
    assert [path.read_bytes() for path in (tmp_path / "uploads").iterdir()] == [payload]


def test_nothing_leaves_when_the_ledger_cannot_be_written(tmp_path: Path) -> None:
    account = _account(tmp_path)
    other = Ledger(ledger_path(tmp_path, 3))
    other.load()
    other.append({"kind": "fleet upload"})  # someone else has written: the chain is no longer ours
    with pytest.raises(LedgerError, match="changed by someone else"):
        account.upload(0, COST, Maker())


def test_a_repeated_request_gets_the_same_bytes_and_spends_nothing(tmp_path: Path) -> None:
    make, account = Maker(), _account(tmp_path)
    first = account.upload(4, COST, make, "a")
    assert account.upload(4, COST, make, "b") == first
    account.close()
    again = _account(tmp_path)  # the client was restarted
    assert again.upload(4, FEATURES, make, "c") == first
    assert make.made == 1
    assert again.spending(1e-6).uploads == 1 and again.spending(1e-6).epsilon == pytest.approx(1.5)
    assert again.upload(5, COST, make) != first
    assert again.spending(1e-6).epsilon == pytest.approx(3.0)


def test_a_client_killed_between_store_and_ledger_has_sent_nothing_and_spends_once(tmp_path: Path) -> None:
    account, make = _account(tmp_path), Maker()

    def killed(row: dict) -> int:
        raise KeyboardInterrupt

    account._ledger.append = killed  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        account.upload(0, COST, make)
    account.close()
    after = _account(tmp_path)
    assert after.upload(0, COST, make) == b"upload 2"
    assert after.spending(1e-6).uploads == 1


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_an_upload_that_was_lost_or_changed_is_never_made_again(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    account, make = _account(tmp_path), Maker()
    account.upload(0, COST, make)
    damage(next((tmp_path / "uploads").iterdir()))
    with pytest.raises(UploadLost, match="round 0 was paid for"):
        account.upload(0, COST, make)
    assert make.made == 1


def test_only_the_last_uploads_are_kept(tmp_path: Path) -> None:
    account, make = _account(tmp_path, keep=2), Maker()
    for round_ in range(5):
        account.upload(round_, COST, make)
    assert len(list((tmp_path / "uploads").iterdir())) == 2
    assert account.upload(3, COST, make) == b"upload 4"
    with pytest.raises(UploadLost):
        account.upload(2, COST, make)


def test_the_ceiling_refuses_before_anything_is_made(tmp_path: Path) -> None:
    account, make = _account(tmp_path, ceiling_epsilon=3.2), Maker()
    account.upload(0, COST, make)
    account.upload(1, COST, make)
    assert account.remaining() == pytest.approx(0.2)
    with pytest.raises(CeilingReached, match=r"client 3: epsilon would be 4.5, above ceiling_epsilon=3.2"):
        account.upload(2, COST, make)
    assert make.made == 2 and account.spending(1e-6).uploads == 2
    assert account.upload(1, COST, make) == b"upload 2", "what was paid for may still be repeated"
    restarted = _account(tmp_path, ceiling_epsilon=3.2)
    with pytest.raises(BudgetExhausted):
        restarted.upload(2, COST, make)


def test_an_upload_that_cannot_be_made_costs_nothing(tmp_path: Path) -> None:
    def fails() -> bytes:
        raise RuntimeError("no memory")

    account = _account(tmp_path)
    with pytest.raises(RuntimeError, match="no memory"):
        account.upload(0, COST, fails)
    assert account.spending(1e-6).epsilon == 0.0 and account.spending(1e-6).last_round == -1


def test_without_files_all_is_kept_in_memory() -> None:
    account, make = UploadAccount(None, None, 0), Maker()
    assert account.upload(0, COST, make) == account.upload(0, COST, make)


def test_ledgers_of_others_are_refused(tmp_path: Path) -> None:
    _account(tmp_path, 3).upload(0, COST, Maker())
    with pytest.raises(ValueError, match="is that of client 3, not of 4"):
        UploadAccount(ledger_path(tmp_path, 3), None, 4)
    flight = tmp_path / "client-000009.ledger"
    Odometer(flight, 1e-5).spend(Expenditure(0, 0.1, 0.1, 0.1))
    with pytest.raises(LedgerError, match="is that of a flight"):
        UploadAccount(flight, None, 9)
    with pytest.raises(LedgerError, match="is that of a flight"):
        fleet_spending(tmp_path, 1e-6)


def test_the_fleets_epsilon_is_that_of_its_worst_client(tmp_path: Path) -> None:
    for client, rounds in ((0, 1), (1, 3)):
        account = _account(tmp_path, client)
        for round_ in range(rounds):
            account.upload(round_, FEATURES if client == 0 else COST, Maker())
        account.close()
    fleet = fleet_spending(tmp_path, 1e-6)
    one, three = fleet.clients
    assert (one.epsilon, three.epsilon) == pytest.approx((0.75, 4.5))
    assert fleet.worst("epsilon") == pytest.approx(4.5) and fleet.uploads == 4
    assert three.round_epsilon == pytest.approx(1.5) and three.last_round == 2
    assert three.paper == pytest.approx(3 * COST.paper_epsilon) and three.paper_round == COST.paper_epsilon
    assert one.paper == pytest.approx(COST.paper_epsilon / 2)
    assert three.epsilon_at_delta <= three.epsilon
    assert json.loads(json.dumps(fleet.summary()))["fleet"]["epsilon"] == pytest.approx(4.5)


def test_many_fine_rounds_compose_to_less_than_their_sum(tmp_path: Path) -> None:
    fine = UploadCost(OneshotLaplace(60.0, 60.0, 1.0, 2.0**-10), "gradient", 10, 100, 1.0, seeded=True)
    account = UploadAccount(None, None, 0)
    for round_ in range(200):
        account.upload(round_, fine, Maker())
    spent = account.spending(1e-6)
    assert spent.seeded == 200
    assert spent.epsilon == pytest.approx(10.0)
    assert spent.epsilon_at_delta < 0.5 * spent.epsilon


def test_the_odometer_verb_cuts_no_figure_short(tmp_path: Path) -> None:
    """P3's noise makes epsilons of seven digits."""
    account = _account(tmp_path)
    severe = UploadCost(OneshotLaplace(1e-3, 1e-3, 300.0), "gradient", 20, 100, 300.0)
    for round_ in range(5):
        account.upload(round_, severe, Maker())
    account.close()
    shown = CliRunner().invoke(cli.app, ["odometer", str(ledger_path(tmp_path, 3))])
    assert "900,000" in shown.output and "4,500,000" in shown.output and "…" not in shown.output


def test_the_odometer_verb_reads_such_a_ledger_and_holds_it_against_a_ceiling(tmp_path: Path) -> None:
    account = _account(tmp_path)
    for round_ in range(2):
        account.upload(round_, COST, Maker())
    account.close()
    path = str(ledger_path(tmp_path, 3))
    assert holds_uploads(Path(path))
    shown = CliRunner().invoke(cli.app, ["odometer", path])
    assert shown.exit_code == 0, shown.output
    assert "2 of fleet client 3" in shown.output and "3.0000" in shown.output and "Theorem 1" in shown.output
    told = CliRunner().invoke(cli.app, ["odometer", path, "--json", "--epsilon-ceiling", "2"])
    assert told.exit_code == 1
    assert json.loads(told.stdout)["fleet"]["epsilon"] == pytest.approx(3.0)


def test_the_odometer_verb_adds_up_a_folder_of_ledgers(tmp_path: Path) -> None:
    """A client's number is the same data in all methods' folders, as in a run's output."""
    for method, rounds in (("a", 2), ("b", 1)):
        (tmp_path / method).mkdir()
        account = _account(tmp_path / method)
        for round_ in range(rounds):
            account.upload(round_, COST, Maker())
        account.close()
    told = CliRunner().invoke(cli.app, ["odometer", str(tmp_path), "--json", "--epsilon-ceiling", "4"])
    assert told.exit_code == 1
    assert json.loads(told.stdout)["fleet"]["epsilon"] == pytest.approx(4.5)
    shown = CliRunner().invoke(cli.app, ["odometer", str(tmp_path)], env={"COLUMNS": "40"})
    assert shown.exit_code == 0, shown.output
    assert "2 below" in shown.output and "4.5000" in shown.output and "…" not in shown.output
    empty = CliRunner().invoke(cli.app, ["odometer", str(tmp_path / "a" / "uploads")])
    assert isinstance(empty.exception, BadInput) and "holds no ledgers" in str(empty.exception)
    nothing = ledger_path(tmp_path / "a", 1)
    nothing.touch()
    refused = CliRunner().invoke(cli.app, ["odometer", str(tmp_path)])
    assert isinstance(refused.exception, BadInput) and "the file is empty" in str(refused.exception)
    assert nothing.stat().st_size == 0, "what was looked at is left as it was"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"strategy": "both"}, "strategy must be one of gradient, features"),
        ({"count": 0}, "count must be a whole number of at least 1"),
        ({"count": 101}, "count=101 must be at most size=100"),
        ({"bound": float("nan")}, "bound must be finite and above 0"),
    ],
)
def test_wrong_costs_are_refused_by_name(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UploadCost(**{"mechanism": MECHANISM, "strategy": "gradient", "count": 1, "size": 100, "bound": 1.0, **fields})
