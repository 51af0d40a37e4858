"""A round of FedSFR: training that really learns, aggregation by hand, private features, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from uav_privacy_sc.fleet.data import FleetData, SplitConfig, rendered_patches, share_out
from uav_privacy_sc.fleet.learning import (
    MisshapenError,
    NotFiniteError,
    TrainingConfig,
    UnclippedError,
    UpdateError,
    aggregate,
    check_features,
    check_update,
    local_update,
    private_features,
    reconstruct_features,
    select_model,
    sparsify,
)
from uav_privacy_sc.fleet.model import SMALL, Autoencoder
from uav_privacy_sc.privacy.oneshot import OneshotLaplace, SparseUpdate, release_generator

CONFIG = dataclasses.replace(SMALL, snr_per="symbol")
FAST = TrainingConfig(rate=0.003)


@pytest.fixture(scope="module")
def fleet() -> FleetData:
    return share_out(rendered_patches(260, seed=3, places=1), SplitConfig(4), np.random.default_rng(0))


@pytest.fixture
def model() -> Autoencoder:
    return Autoencoder(CONFIG, np.random.default_rng(1))


def _some(size: int, entries: dict[int, float]) -> SparseUpdate:
    return SparseUpdate(np.array(sorted(entries)), np.array([entries[i] for i in sorted(entries)], np.float32), size)


def test_federated_averaging_learns(fleet: FleetData, model: Autoencoder) -> None:
    """Five rounds without noise on patches of a rendered flight: several dB above the first model."""
    rng, start = np.random.default_rng(2), model.parameters()
    quality = [model.psnr(fleet.test, np.random.default_rng(9))]
    for round_ in range(5):
        updates = [(local_update(model, start, c.images, FAST, round_, rng), len(c.images)) for c in fleet.clients]
        start = aggregate(start, [(sparsify(update, len(update)), weight) for update, weight in updates])
        model.load(start)
        quality.append(model.psnr(fleet.test, np.random.default_rng(9)))
    assert quality[5] > quality[0] + 4.0
    assert quality[5] > quality[1]


def test_feature_reconstruction_lowers_its_loss(fleet: FleetData, model: Autoencoder) -> None:
    start = model.parameters() + local_update(
        model, model.parameters(), fleet.clients[0].images, FAST, 0, np.random.default_rng(1)
    )
    model.load(start)
    features = model.encode(fleet.public)
    after, losses = reconstruct_features(
        model, start, features, TrainingConfig(rate=0.001, epochs=6), 0, np.random.default_rng(2)
    )
    assert len(losses) == 6 and losses[-1] < 0.9 * losses[0]
    assert not np.array_equal(after[: model.encoder_size], start[: model.encoder_size])
    assert not np.array_equal(after[model.encoder_size :], start[model.encoder_size :])
    again = model.parameters()
    assert np.array_equal(again, after)


def test_an_update_repeats_with_its_seed_and_points_downhill(fleet: FleetData, model: Autoencoder) -> None:
    start, images = model.parameters(), fleet.clients[0].images
    first, second = (local_update(model, start, images, FAST, 0, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(first, second) and first.shape == (model.size,)
    model.load(start + first)
    trained = model.psnr(images, np.random.default_rng(0))
    model.load(start)
    assert trained > model.psnr(images, np.random.default_rng(0)) + 1.0


def test_the_rate_falls_every_ten_rounds() -> None:
    config = TrainingConfig(rate=0.01, optimizer="sgd")
    assert [config.rate_at(r) for r in (0, 9, 10, 25)] == pytest.approx([0.01, 0.01, 0.009, 0.0081])


def test_a_smaller_rate_of_a_later_round_moves_less(fleet: FleetData, model: Autoencoder) -> None:
    start, images, config = model.parameters(), fleet.clients[0].images[:16], TrainingConfig(0.01, 16, 1, "sgd", 0.5, 1)
    early, late = (local_update(model, start, images, config, r, np.random.default_rng(4)) for r in (0, 4))
    assert np.abs(late).sum() == pytest.approx(np.abs(early).sum() / 16, rel=0.05)


def test_sparsify_keeps_the_largest() -> None:
    sparse = sparsify(np.array([0.1, -5.0, 3.0, 0.0], np.float32), 2)
    assert sparse.indices.tolist() == [1, 2] and sparse.values.tolist() == [-5.0, 3.0]


def test_aggregation_by_hand() -> None:
    start = np.array([1.0, 1.0, 1.0], np.float32)
    model = aggregate(start, [(_some(3, {0: 1.0, 2: 2.0}), 30), (_some(3, {2: -2.0}), 10)])
    assert model == pytest.approx([1.75, 1.0, 2.0])
    assert np.array_equal(aggregate(start, []), start)
    with pytest.raises(ValueError, match="weight must be finite and above 0"):
        aggregate(start, [(_some(3, {0: 1.0}), float("nan"))])


def test_nothing_of_another_model_or_without_end_is_aggregated() -> None:
    start = np.zeros(3, np.float32)
    with pytest.raises(MisshapenError, match="update of 4 parameters for a model of 3"):
        aggregate(start, [(_some(4, {0: 1.0}), 1)])
    broken = _some(3, {0: 1.0})
    broken.values[0] = np.nan  # what came in by another way than the checks of SparseUpdate
    with pytest.raises(NotFiniteError, match="1 values of NaN"):
        aggregate(start, [(broken, 1)])
    assert issubclass(NotFiniteError, UpdateError) and issubclass(UpdateError, ValueError)


def test_unclipped_updates_are_refused() -> None:
    mechanism = OneshotLaplace(0.001, 0.001, 1.0)
    honest = mechanism.release(np.full(1000, 0.3), 100, release_generator(1))
    assert check_update(honest, 1000, mechanism) is honest
    with pytest.raises(UnclippedError, match="it was not clipped to 1"):
        check_update(_some(1000, dict.fromkeys(range(100), 0.3)), 1000, mechanism)


def test_features_of_another_shape_are_refused() -> None:
    assert check_features(np.zeros((2, 8)), 8).dtype == np.float32
    for wrong in (np.zeros((2, 7)), np.zeros(8), np.zeros((0, 8))):
        with pytest.raises(MisshapenError, match=r"features must be \(n, 8\)"):
            check_features(wrong, 8)
    with pytest.raises(NotFiniteError):
        check_features(np.full((1, 8), np.inf), 8)


def test_features_come_from_the_private_encoder_alone(fleet: FleetData, model: Autoencoder) -> None:
    """Two updates that differ in the decoder, or in nothing the release shows, give the same features."""
    start, public = model.parameters(), fleet.public
    update = np.random.default_rng(3).normal(0, 0.01, model.size).astype(np.float32)
    other = update.copy()
    other[model.encoder_size :] = 7.0
    mechanism = OneshotLaplace(0.001, 0.001, 5.0)
    first, second, third = (
        private_features(model, start, given, public, 3000, mechanism, release_generator(seed))
        for given, seed in ((update, 1), (other, 1), (update, 2))
    )
    assert np.array_equal(first, second), "the decoder's update is not sent"
    assert not np.allclose(first, third), "the noise is the mechanism's"
    assert first.shape == (3000 // 256, 256), "S_k limits how many are sent"
    released = mechanism.release(update[: model.encoder_size], 1500, release_generator(1))
    private = start.copy()
    private[: model.encoder_size] += released.dense()
    model.load(private)
    assert np.allclose(model.encode(public[: len(first)]), first, atol=1e-6)


def test_too_few_entries_for_one_feature_vector_are_named(fleet: FleetData, model: Autoencoder) -> None:
    mechanism = OneshotLaplace(0.001, 0.001, 5.0)
    update = np.zeros(model.size, np.float32)
    for entries, public in ((255, fleet.public), (3000, fleet.public[:0])):
        with pytest.raises(ValueError, match="give no feature vector of 256"):
            private_features(model, model.parameters(), update, public, entries, mechanism, release_generator(1))


def test_the_better_model_is_kept(fleet: FleetData, model: Autoencoder) -> None:
    start = model.parameters()
    better = start + local_update(model, start, fleet.clients[0].images, FAST, 0, np.random.default_rng(1))
    rng = np.random.default_rng(0)
    kept = select_model(model, start, better, fleet.public, rng)
    assert kept.reconstructed and np.array_equal(kept.parameters, better)
    assert kept.psnr_reconstructed > kept.psnr_aggregated
    kept = select_model(model, better, start, fleet.public, rng)
    assert not kept.reconstructed and np.array_equal(model.parameters(), better)
    same = select_model(model, better, better.copy(), fleet.public, rng)
    assert not same.reconstructed and same.psnr_aggregated == same.psnr_reconstructed, "both see the same channel"
    with pytest.raises(ValueError, match="public must hold at least one image"):
        select_model(model, start, better, fleet.public[:0], rng)


def test_training_that_diverges_is_named(fleet: FleetData, model: Autoencoder) -> None:
    start = model.parameters()
    broken = np.full((4, model.feature_size), 1e30, np.float32)
    with pytest.raises(NotFiniteError):
        reconstruct_features(
            model, start, broken, TrainingConfig(rate=1e30, optimizer="sgd"), 0, np.random.default_rng(0)
        )
    with pytest.raises(ValueError, match="data must hold at least one entry"):
        local_update(model, start, fleet.public[:0], FAST, 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rate": 0.0}, "rate must be finite and above 0"),
        ({"decay": 1.5}, "decay must be at most 1"),
        ({"batch": 0}, "batch must be a whole number"),
        ({"optimizer": "lion"}, "optimizer must be one of adam, sgd"),
    ],
)
def test_wrong_settings_are_refused_by_name(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**fields)
