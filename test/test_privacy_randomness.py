"""Random streams: independent of each other, repeatable with a seed only, never repeated by a forked child."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from uav_privacy_sc.privacy.randomness import STREAMS, RandomStreams


def draws(streams: RandomStreams, count: int = 4000) -> np.ndarray:
    return np.array([getattr(streams, name).standard_normal(count) for name in STREAMS])


def test_a_seed_repeats_every_stream_and_marks_the_streams() -> None:
    assert RandomStreams(seed=7).seeded and not RandomStreams().seeded
    np.testing.assert_array_equal(draws(RandomStreams(seed=7)), draws(RandomStreams(seed=7)))
    assert not np.isclose(draws(RandomStreams(seed=7)), draws(RandomStreams(seed=8))).any(axis=1).all()


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_streams_are_uncorrelated(seed: int | None) -> None:
    correlation = np.corrcoef(draws(RandomStreams(seed)))
    assert np.abs(correlation[np.triu_indices(len(STREAMS), 1)]).max() < 4.5 / np.sqrt(4000)


def test_drawing_from_one_stream_moves_no_other() -> None:
    first, second = RandomStreams(seed=1), RandomStreams(seed=1)
    first.visual.standard_normal(1000)
    assert first.location.random() == second.location.random()


def test_without_a_seed_nothing_repeats() -> None:
    assert not np.isclose(draws(RandomStreams(), 8), draws(RandomStreams(), 8)).any()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_draws_other_noise() -> None:
    streams = RandomStreams()
    streams.visual.standard_normal(3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, streams.visual.standard_normal(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 32))
    assert not np.isclose(theirs, streams.visual.standard_normal(4)).any()


@pytest.mark.parametrize("seed", [-1, 1.5, float("nan"), "seven", True])
def test_a_strange_seed_is_refused(seed: object) -> None:
    with pytest.raises(ValueError, match="^seed must be a whole number of at least 0"):
        RandomStreams(seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda streams: pickle.loads(pickle.dumps(streams))])
def test_streams_without_a_seed_cannot_be_duplicated(duplicate) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match="noise used twice"):
        duplicate(RandomStreams())
    duplicate(RandomStreams(seed=1))
