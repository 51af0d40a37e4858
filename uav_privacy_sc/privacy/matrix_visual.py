"""P2's matrix mechanisms as visual mechanisms, for the neighbouring relation of P1 (one cell of one frame).

The feature tensor is the matrix: a row for every channel, a column for every cell, directions along the channels. With
``calibration: classical`` the noise is what P2 (or Chanyaswad et al. 2018) states; with ``analytic`` it is the tight
form. In both the odometer counts what is really given. The budget does not vary over the grid, so the noise level
shows nobody's place.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from . import matrix
from .budget_map import BudgetMapConfig
from .calibration import mu_from_epsilon
from .domain import FloatArray, positive
from .normal import Clip
from .visual import VisualConfig, add_gaussian, clip_scale, register


class _Directional:
    """Gaussian noise with one deviation for every channel and one budget for all cells."""

    def allocate(
        self, objects: np.ndarray, grid_shape: tuple[int, int], epsilon_v: float, map_config: BudgetMapConfig
    ) -> FloatArray:
        """Return a constant map."""
        return np.full(grid_shape, epsilon_v)

    def release(
        self, features: NDArray[np.float32], epsilon_map: FloatArray, config: VisualConfig, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Clip, and add noise with the deviations of the channels."""
        if len(features) != config.channels:
            raise ValueError(f"channels must match the features, got {config.channels} for {len(features)}")
        sigma = self._sigma_of(epsilon_map, config)[:, None, None]
        return add_gaussian(features, self._clip_of(features, config), sigma, config, rng)

    def mu_map(self, epsilon_map: FloatArray, config: VisualConfig) -> FloatArray:
        """Return what every cell really gets."""
        return np.full(epsilon_map.shape, self._mu(self._sigma_of(epsilon_map, config), config))

    def _sigma_of(self, epsilon_map: FloatArray, config: VisualConfig) -> FloatArray:
        epsilon = float(positive("epsilon_map", epsilon_map.flat[0]))
        if not (epsilon_map == epsilon).all():
            raise ValueError(
                f"epsilon_map must be constant for {config.mechanism}; allocate it with the same mechanism"
            )
        return self._sigma(epsilon, epsilon_map.size, config)

    def _sigma(self, epsilon: float, cells: int, config: VisualConfig) -> FloatArray:
        if config.calibration == "analytic":  # the tight form under a norm bound has no direction
            return np.full(config.channels, config.sensitivity / mu_from_epsilon(epsilon, config.delta))
        return self._published(epsilon, (config.channels, cells), config)

    def _published(self, epsilon: float, shape: tuple[int, int], config: VisualConfig) -> FloatArray:
        raise NotImplementedError

    def _clip_of(self, features: NDArray[np.float32], config: VisualConfig) -> Clip:
        scale = clip_scale(features, config.c_clip)
        return lambda block: block * scale

    def _mu(self, sigma: FloatArray, config: VisualConfig) -> float:
        return float(config.sensitivity / sigma.min())


@register("matrix_udn")
class UnimodalDirectional(_Directional):
    """P2's unimodal directional noise (Theorem 2) under the norm clip; tight form: independent Gaussian noise."""

    def _published(self, epsilon: float, shape: tuple[int, int], config: VisualConfig) -> FloatArray:
        return _udn(epsilon, shape, config)


@register("matrix_mvg")
class MatrixVariate(_Directional):
    """The matrix-variate Gaussian of Chanyaswad et al. (2018) under the norm clip; tight form as for UDN."""

    def _published(self, epsilon: float, shape: tuple[int, int], config: VisualConfig) -> FloatArray:
        return _mvg(epsilon, shape, config)


@register("matrix_idn")
class IndependentDirectional(_Directional):
    """P2's independent directional noise (Theorem 3): every entry is clipped to +-c_clip / sqrt(C).

    That box lies inside the norm ball of ``c_clip``. In it a direction pays: channels of large weight get less noise.
    """

    def _sigma(self, epsilon: float, cells: int, config: VisualConfig) -> FloatArray:
        return _idn(epsilon, (config.channels, cells), config)

    def _clip_of(self, features: NDArray[np.float32], config: VisualConfig) -> Clip:
        if not np.isfinite(features).all():
            raise ValueError("features hold NaN or infinity; drop the frame")
        bound = np.nextafter(np.float32(_half_width(config)), np.float32(0))
        return lambda block: np.clip(block, -bound, bound)

    def _mu(self, sigma: FloatArray, config: VisualConfig) -> float:
        return float(2 * _half_width(config) * np.sqrt(np.sum(sigma**-2)))


def _half_width(config: VisualConfig) -> float:
    return config.c_clip / np.sqrt(config.channels)


@lru_cache(maxsize=64)
def _udn(epsilon: float, shape: tuple[int, int], config: VisualConfig) -> FloatArray:
    return matrix.udn(shape, epsilon, config.delta, config.sensitivity, config.channel_weights or None).rows


@lru_cache(maxsize=64)
def _mvg(epsilon: float, shape: tuple[int, int], config: VisualConfig) -> FloatArray:
    gamma = config.c_clip * np.sqrt(shape[1])
    return matrix.mvg(shape, epsilon, config.delta, config.sensitivity, gamma, config.channel_weights or None).rows


@lru_cache(maxsize=64)
def _idn(epsilon: float, shape: tuple[int, int], config: VisualConfig) -> FloatArray:
    """Return deviations for a change of one column; Theorem 3 is for a change of all, hence the square root."""
    tight, half = config.calibration == "analytic", _half_width(config)
    weights = config.channel_weights or None
    if tight:
        return matrix.idn((shape[0], 1), epsilon, config.delta, -half, half, weights, tight=True).rows
    return matrix.idn(shape, epsilon, config.delta, -half, half, weights).rows / np.sqrt(shape[1])
