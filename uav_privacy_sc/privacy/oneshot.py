"""One-shot Laplace release of a sparse model update (P3 section III), with the epsilon that holds in the worst case.

Top-S indices are chosen under Laplace noise of scale sigma_1, the chosen values leave under fresh noise of scale
sigma_2. Neighbouring inputs are any two updates of L1 norm at most G, so a record, or all of a client's data, may be
replaced. P3's Theorem 1 takes the change to be spread evenly over all N entries; one record may as well put all of it
on the entries that are chosen. What holds then, with u = abs(g), A the chosen indices and B the others:

* abs(g + noise) depends on u only, and the chance of A grows with u on A and falls with u on B, so
  ``log P(A|g) / P(A|g') <= sum_A (u - u')^+ / sigma_1 + sum_B (u' - u)^+ / sigma_1``;
* the values add ``sum_A abs(g - g') / sigma_2``.

Mass of g costs at most ``1/sigma_1 + 1/sigma_2`` (on A), mass of g' at most ``1/sigma_1`` (on B) or ``1/sigma_2`` (on
A), never both; each has G of it: ``epsilon = G/sigma_1 + G/sigma_2 + G/min(sigma_1, sigma_2)``. The noisy vector that
chose is private by itself with ``2 G / sigma_1``: publishing its own chosen entries (``values="same"``) costs no more.

All happens in whole steps of a lattice: the clipped update is cut towards zero, the noise is the difference of two
geometric numbers (discrete Laplace), sums are exact, so no low bits tell anything.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from randomgen import AESCounter

from .domain import FloatArray, choice, positive, whole
from .lattice import check_step

#: Default step: a power of two; a thousandth of P3's smallest noise scale and less.
STEP = 2.0**-22
VALUES = ("fresh", "same")
STRATEGIES = ("gradient", "features")
_LARGEST = 2.0**52  # counts beyond it would not be exact in float64


@dataclass(frozen=True)
class SparseUpdate:
    """What a client sends: ``values[s]`` at ``indices[s]`` of a vector of ``size`` entries, 0 elsewhere.

    Attributes:
        indices: ``(S,)`` int64, rising.
        values: ``(S,)`` float32.
        size: N.

    Raises:
        ValueError: indices out of order or range, values that are not finite, or shapes that differ.
    """

    indices: NDArray[np.int64]
    values: NDArray[np.float32]
    size: int

    def __post_init__(self) -> None:
        size = whole("size", self.size)
        indices, values = np.asarray(self.indices), np.asarray(self.values, np.float32)
        if indices.ndim != 1 or indices.shape != values.shape or indices.dtype.kind not in "iu":
            raise ValueError(
                f"indices {indices.shape} {indices.dtype} and values {values.shape} must be (S,) whole numbers and (S,)"
            )
        indices = indices.astype(np.int64)
        if indices.size and not (indices[0] >= 0 and indices[-1] < size and (np.diff(indices) > 0).all()):
            raise ValueError(f"indices must rise within 0 to {size - 1}; sort them and drop repeated ones")
        if not np.isfinite(values).all():
            raise ValueError("values hold NaN or infinity; the update must not be used")
        for name, value in (("size", size), ("indices", indices), ("values", values)):
            object.__setattr__(self, name, value)

    def dense(self) -> NDArray[np.float32]:
        """Return the ``(N,)`` float32 vector."""
        vector = np.zeros(self.size, np.float32)
        vector[self.indices] = self.values
        return vector


@dataclass(frozen=True)
class OneshotLaplace:
    """The mechanism: clip to ``bound`` in L1, choose under ``Lap(sigma_1)``, send under ``Lap(sigma_2)``.

    Attributes:
        sigma_1: noise scale of the selection, in the unit of the update.
        sigma_2: noise scale of the values; without meaning where ``values`` is "same".
        bound: G, the enforced L1 norm.
        step: width of the lattice, a power of two.
        values: "fresh" is P3's; "same" publishes the entries of the vector that chose, for less epsilon.

    Raises:
        ValueError: a parameter out of its range, noise narrower than 8 steps, or too large for exact sums.

    Example:
        >>> mechanism = OneshotLaplace(sigma_1=1.0, sigma_2=2.0, bound=1.0, step=2.0**-10)
        >>> mechanism.worst_case_epsilon
        2.5
        >>> mechanism.release(np.ones(100), 5, release_generator()).indices.shape
        (5,)
    """

    sigma_1: float
    sigma_2: float
    bound: float
    step: float = STEP
    values: str = "fresh"

    def __post_init__(self) -> None:
        for name in ("sigma_1", "sigma_2", "bound"):
            object.__setattr__(self, name, float(positive(name, getattr(self, name))))
        object.__setattr__(self, "step", check_step(self.step))
        choice("values", self.values, VALUES)
        for name in ("sigma_1", "sigma_2"):
            sigma = getattr(self, name)
            if not sigma >= 8 * self.step:
                raise ValueError(
                    f"{name}={sigma} must be at least 8 steps of {self.step}; use more noise, or a smaller step"
                )
        if not max(self.bound, 64 * self.sigma_1, 64 * self.sigma_2) < _LARGEST * self.step:
            raise ValueError(f"step={self.step} is too fine for bound={self.bound} and this noise; use a smaller bound")

    @property
    def worst_case_epsilon(self) -> float:
        """Pure epsilon of one release for any two updates within the bound, counts rounded as they are sent."""
        return worst_case_epsilon(self.bound, self.sigma_1, self.sigma_2, self.values)

    def release(self, update: ArrayLike, count: int, rng: np.random.Generator) -> SparseUpdate:
        """Return ``count`` entries of the update, privately chosen and with noise.

        Args:
            update: ``(N,)``, finite; any norm: it is clipped here.
            count: S, at most N.
            rng: from :func:`release_generator`.

        Raises:
            ValueError: an update that is not finite or not a vector, or a count out of range.
            ArithmeticError: the clipped update exceeds the bound on the lattice; nothing may be sent then.
        """
        counts = self.lattice_counts(update)
        count = whole("count", count)
        if count > len(counts):
            raise ValueError(f"count must be at most the size of the update, {len(counts)}, got {count}")
        noisy = counts + discrete_laplace(self.sigma_1 / self.step, len(counts), rng)
        indices = _largest(np.abs(noisy), count)
        if self.values == "same":
            sent = noisy[indices]
        else:
            sent = counts[indices] + discrete_laplace(self.sigma_2 / self.step, count, rng)
        return SparseUpdate(indices, (sent * self.step).astype(np.float32), len(counts))

    def lattice_counts(self, update: ArrayLike) -> NDArray[np.int64]:
        """Return the ``(N,)`` whole steps of the clipped update, cut towards zero; their L1 norm is checked exactly.

        Raises:
            ValueError: an update that is not finite or not a vector.
            ArithmeticError: the norm exceeds the bound all the same.
        """
        counts = np.trunc(clip_l1(update, self.bound) / self.step).astype(np.int64)
        if not int(np.abs(counts).sum()) <= math.floor(self.bound / self.step):
            raise ArithmeticError(f"the update exceeds bound={self.bound} on the lattice; release refused")
        return counts

    def largest_norm(self, count: int, size: int) -> float:
        """Return an L1 norm that an honest release of ``count`` of ``size`` values passes once in 10^12 at most.

        The sum of S noise sizes is Gamma(S) in units of sigma; where the noise chose them itself, the union over all
        choices bounds it.
        """
        doubt = 28.0
        if self.values == "same":
            doubt += count * (1 + math.log(size / count))
        sigma = self.sigma_1 if self.values == "same" else self.sigma_2
        return self.bound + sigma * (count + math.sqrt(2 * count * doubt) + doubt) + count * self.step


def clip_l1(update: ArrayLike, bound: float) -> FloatArray:
    """Return the ``(N,)`` float64 update, scaled down where its L1 norm exceeds ``bound``.

    Raises:
        ValueError: a bound out of range, or an update that is not a vector, empty or not finite.
    """
    bound = float(positive("bound", bound))
    vector = np.asarray(update, np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"update must be a vector (N,), got shape {vector.shape}")
    largest = float(np.abs(vector).max())
    if not math.isfinite(largest):
        raise ValueError("update holds NaN or infinity; drop it and train again from the last model")
    if largest == 0.0:
        return vector.copy()
    norm = float(np.abs(vector / largest).sum())  # scaled, so that no sum overflows
    limit = bound / largest
    if norm <= limit:
        return vector.copy()
    return vector / largest * (bound / norm * (1 - 2.0**-40))  # the last factor outweighs what rounding may add


def discrete_laplace(scale: float, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ``(count,)`` draws k of the two-sided geometric distribution, P(k) proportional to exp(-abs(k) / scale).

    The floor of an exponential number is geometric; the difference of two such is two-sided. Precision is that of the
    generator's exponentials and does not depend on any data.
    """
    draws = rng.standard_exponential((2, count))
    draws *= scale
    return np.floor(draws[0]).astype(np.int64) - np.floor(draws[1]).astype(np.int64)


def worst_case_epsilon(bound: float, sigma_1: float, sigma_2: float, values: str = "fresh") -> float:
    """Return the pure epsilon of one release for any two updates of L1 norm at most ``bound``, whatever N and S.

    ``bound/sigma_1 + bound/sigma_2 + bound/min(sigma_1, sigma_2)`` (derived above; below the 2G/sigma_1 + 2G/sigma_2 of
    composing both parts), or ``2 bound / sigma_1`` with values "same". For features ``bound`` is that of the encoder.
    Qiao et al.'s bound of the selection, 2 S Delta_inf / sigma_1, never helps here: Delta_inf may be 2G.

    Raises:
        ValueError: a parameter out of its range.
    """
    bound, sigma_1 = float(positive("bound", bound)), float(positive("sigma_1", sigma_1))
    if choice("values", values, VALUES) == "same":
        return 2 * bound / sigma_1
    sigma_2 = float(positive("sigma_2", sigma_2))
    return bound / sigma_1 + bound / sigma_2 + bound / min(sigma_1, sigma_2)


def paper_epsilon(
    count: int, bound: float, size: int, sigma_1: float, sigma_2: float, strategy: str = "gradient"
) -> float:
    """Return what P3's Theorem 1 claims; it does not hold for every pair of neighbours (:func:`worst_case_epsilon`).

    ``2 S G (sigma_1 + 2 sigma_2) / (N sigma_1 sigma_2)`` for gradients, half of it for features.

    Args:
        count: S, the uplink budget in numbers (for features, too: half of it is chosen from the encoder).
        bound: G, the L1 bound of the whole model's update (P3 takes the encoder's to be G/2).
        size: N, parameters of the whole model.
        sigma_1, sigma_2: noise scales.
        strategy: "gradient" or "features".

    Raises:
        ValueError: a parameter out of its range.
    """
    share = whole("count", count) / whole("size", size)
    if share > 1:
        raise ValueError(f"count={count} must be at most size={size}")
    sigma_1, sigma_2 = float(positive("sigma_1", sigma_1)), float(positive("sigma_2", sigma_2))
    whole_model = 2 * share * float(positive("bound", bound)) * (1 / sigma_2 + 2 / sigma_1)
    return whole_model if choice("strategy", strategy, STRATEGIES) == "gradient" else whole_model / 2


def release_generator(seed: int | None = None, *labels: int) -> np.random.Generator:
    """Return a generator for one release: a cipher under a fresh key of the operating system, or seeded.

    Args:
        seed: None for cryptographic randomness; a whole number in experiments, which are not private then.
        labels: what the release is (client and round), so that a seed gives every release noise of its own.

    Raises:
        ValueError: a seed or label that is not a whole number of at least 0.
    """
    if seed is None:
        return np.random.Generator(AESCounter(key=secrets.randbits(128)))
    numbers = [whole("seed", seed, 0), *(whole("label", label, 0) for label in labels)]
    state = np.random.SeedSequence(numbers).generate_state(2, np.uint64)
    return np.random.Generator(AESCounter(key=int.from_bytes(state.tobytes(), "little")))


def _largest(sizes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the rising indices of the ``count`` largest; among equals the earlier, whatever else the data are."""
    if count == len(sizes):
        return np.arange(count)
    threshold = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    above = np.flatnonzero(sizes > threshold)
    equal = np.flatnonzero(sizes == threshold)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))
