"""The autoencoder: its size as published, its channel, and what the fleet relies on (flat vector, no hidden state)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from uav_privacy_sc.fleet.model import SMALL, Autoencoder, AutoencoderConfig, channel_noise


def _images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def small() -> Autoencoder:
    return Autoencoder(SMALL, np.random.default_rng(0))


def test_the_size_is_the_published_one() -> None:
    model = Autoencoder(AutoencoderConfig(), np.random.default_rng(0))
    convolutions = [layer for layer in (*model.encoder.body, *model.decoder.body) if hasattr(layer, "kernel_size")]
    assert len(convolutions) == 10
    assert 0.315e6 < model.size < 0.325e6
    assert model.encoder_size / model.size == pytest.approx(0.5, abs=1e-3)
    assert model.feature_size == 256
    assert model.encode(_images(2)).shape == (2, 256)


def test_nothing_but_parameters_is_kept(small: Autoencoder) -> None:
    assert not [*small.encoder.buffers(), *small.decoder.buffers()]
    assert len(small.parameters()) == small.size == sum(p.numel() for p in small.trainable())


def test_the_encoder_comes_first_in_the_flat_vector(small: Autoencoder) -> None:
    start, images = small.parameters(), _images(4)
    features, decoded = small.encode(images), small.reconstruct(small.encode(images))
    changed = start.copy()
    changed[small.encoder_size :] += 0.05
    small.load(changed)
    assert np.array_equal(small.encode(images), features)
    assert not np.array_equal(small.reconstruct(features), decoded)
    changed = start.copy()
    changed[: small.encoder_size] += 0.05
    small.load(changed)
    assert not np.allclose(small.encode(images), features)
    assert np.array_equal(small.reconstruct(features), decoded)
    small.load(start)
    assert np.array_equal(small.parameters(), start)


def test_features_have_unit_norm(small: Autoencoder) -> None:
    assert np.linalg.norm(small.encode(_images(300)), axis=1) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("snr_per", "deviation"), [("vector", 0.1), ("symbol", 0.1 / 16)])
def test_the_channel_is_rayleigh_with_equalization(snr_per: str, deviation: float) -> None:
    """n / |h| with |h|^2 of unit-mean Exp is Student's t with two degrees of freedom; a vector has one fade."""
    config = dataclasses.replace(SMALL, snr_db=20.0, snr_per=snr_per)
    noise = channel_noise(20_000, config, np.random.default_rng(1))
    assert stats.kstest(noise[:, 0] / deviation, stats.t(2).cdf).pvalue > 0.001
    fades = deviation / noise.std(axis=1)
    assert np.mean(fades**2) == pytest.approx(1.0, abs=0.05)
    assert (noise.std(axis=1) > 0).all()
    assert abs(np.corrcoef(np.abs(noise[:, 0]), np.abs(noise[:, 1]))[0, 1]) > 0.1, "one fade for a vector"


def test_a_seed_gives_the_same_model_and_the_same_measurement() -> None:
    first, second = (Autoencoder(SMALL, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first.parameters(), second.parameters())
    images = _images(5)
    assert first.psnr(images, np.random.default_rng(1)) == second.psnr(images, np.random.default_rng(1))
    assert first.psnr(images, np.random.default_rng(1)) != first.psnr(images, np.random.default_rng(2))


def test_psnr_and_loss_are_what_they_say(small: Autoencoder) -> None:
    images = _images(1)
    loss = small.loss(images, np.random.default_rng(3)).item()
    assert small.psnr(images, np.random.default_rng(3)) == pytest.approx(-10 * np.log10(loss), abs=1e-4)
    decoded = small.reconstruct(small.encode(images) + channel_noise(1, small.config, np.random.default_rng(3)))
    by_hand = np.mean(((decoded.astype(float) - images) / 255) ** 2)
    assert loss == pytest.approx(by_hand, rel=0.01)


def test_feature_loss_is_the_distance_after_decoding_and_encoding(small: Autoencoder) -> None:
    clean = Autoencoder(dataclasses.replace(SMALL, snr_db=200.0), np.random.default_rng(0))
    features = clean.encode(_images(6))
    again = clean.encoder(clean.decoder(clean._channel(torch.from_numpy(features), np.random.default_rng(0))))
    by_hand = np.square(again.detach().numpy() - features).sum(axis=1).mean()
    assert clean.feature_loss(features, np.random.default_rng(0)).item() == pytest.approx(by_hand, rel=1e-5)
    assert 0 < by_hand <= 4


@pytest.mark.parametrize("flat", [np.zeros(3), None])
def test_other_parameters_are_refused(small: Autoencoder, flat: np.ndarray | None) -> None:
    if flat is None:
        flat = small.parameters()
        flat[7] = np.nan
        with pytest.raises(ValueError, match="NaN or infinity"):
            small.load(flat)
    else:
        with pytest.raises(ValueError, match=r"parameters must be \(\d+,\), got \(3,\)"):
            small.load(flat)


def test_other_images_are_refused(small: Autoencoder) -> None:
    with pytest.raises(ValueError, match=r"images must be \(n, 32, 32, 3\) uint8"):
        small.encode(np.zeros((1, 16, 16, 3), np.uint8))
    with pytest.raises(ValueError, match="float"):
        small.encode(np.zeros((1, 32, 32, 3), np.float32))
    assert small.encode(_images(0)).shape == (0, 256)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"widths": (8, 8)}, "widths must be four numbers"),
        ({"kernel": 4}, "kernel must be odd"),
        ({"side": 30}, "side must be a multiple of 4"),
        ({"latent": 0}, "latent must be a whole number"),
        ({"snr_db": float("nan")}, "snr_db must be finite"),
        ({"snr_per": "bit"}, "snr_per must be one of vector, symbol"),
    ],
)
def test_wrong_settings_are_refused_by_name(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AutoencoderConfig(**fields)
