"""Two topics of one frame, joined by stamp."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from uav_privacy_sc.nodes.conversion import make_header
from uav_privacy_sc.nodes.join import StampJoin


def message(stamp: int, name: str = "") -> Any:
    return SimpleNamespace(header=make_header(stamp, ""), name=name)


def collect(depth: int = 3) -> tuple[StampJoin, list[int], list[int]]:
    pairs: list[int] = []
    lost: list[int] = []
    return StampJoin(lambda a, b: pairs.append(a.header.stamp.nanosec), lost.append, depth), pairs, lost


def test_pairs_come_out_whatever_the_order() -> None:
    join, pairs, lost = collect()
    join.first(message(1))
    join.second(message(2))
    join.second(message(1))
    join.first(message(2))
    assert (pairs, lost) == ([1, 2], [])


def test_halves_are_told_and_never_pile_up() -> None:
    join, pairs, lost = collect(depth=3)
    for stamp in range(100):
        join.first(message(stamp))
    assert pairs == []
    assert lost == list(range(97))


def test_stamps_that_jump_back_pair_up_again() -> None:
    join, pairs, _ = collect()
    for stamp in (1, 2, 3, 1, 2, 3):
        join.first(message(stamp))
        join.second(message(stamp))
    assert pairs == [1, 2, 3, 1, 2, 3]


def test_a_repeated_half_replaces_the_one_that_waits() -> None:
    kept: list[str] = []
    join = StampJoin(lambda a, b: kept.append(a.name), lambda stamp: None)
    join.first(message(1, "old"))
    join.first(message(1, "new"))
    join.second(message(1))
    assert kept == ["new"]
