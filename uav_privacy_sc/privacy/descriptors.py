"""What else a descriptor tells: class, box size, score, order and number of the objects, each with its own option.

P1 sends class, size, score and number in clear. Here each can be randomized at a pure epsilon of its own, which goes
into the record. What each protects, and what it does not:

========  ==============================================================================================
class     randomized response over the ten classes: any class may have been any other
size      noise on the octaves of width and height: a change by one octave in all (both together) is hidden
number    dummies up to a noisy number; objects are dropped where it falls short. It hides the number as a number. That
          a certain object is there is hidden only together with what it costs its descriptors to be anything else
          (``location.grid_replacement_epsilon`` and the like). A score, class or size in clear tells dummies from
          objects, and whoever takes the dummies away knows the number: :attr:`DescriptorConfig.hides_count`
score     not sent at all (1.0 for every object)
order     shuffled: detectors order by score
========  ==============================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import scene
from .domain import positive, whole
from .randomness import RandomStreams

#: Whole steps of box size in an octave.
STEPS = 16
#: Box sizes lie between the image's and 2^-LEAST of it.
OCTAVES = 8


@dataclass(frozen=True)
class DescriptorConfig:
    """Options of a descriptor's release; None sends that part in clear, as P1 does.

    Attributes:
        label_epsilon: pure epsilon of the class of an object (randomized response).
        size_epsilon: pure epsilon of an octave of box size.
        count_epsilon: pure epsilon of one object more or less.
        count_margin: how many dummies there are on average; objects are dropped about
            ``exp(-count_epsilon * count_margin) / 2`` of the time.
        count_limit: most objects that are ever released, whatever the noise.
        hide_score: send 1.0 for every score.
        shuffle: release the objects in random order.
    """

    label_epsilon: float | None = None
    size_epsilon: float | None = None
    count_epsilon: float | None = None
    count_margin: int = 8
    count_limit: int = 1000
    hide_score: bool = False
    shuffle: bool = False

    @property
    def hides_count(self) -> bool:
        """Whether the number is padded and nothing is sent in clear by which dummies are told from objects."""
        return None not in (self.count_epsilon, self.label_epsilon, self.size_epsilon) and self.hide_score

    def __post_init__(self) -> None:
        for name in ("label_epsilon", "size_epsilon", "count_epsilon"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        whole("count_margin", self.count_margin, 0)
        whole("count_limit", self.count_limit)


def pad_objects(objects: np.ndarray, config: DescriptorConfig, rng: np.random.Generator) -> np.ndarray:
    """Return objects and dummies up to a noisy number, in random order; run it before every other descriptor mechanism.

    The number released is ``n + count_margin + G`` with two-sided geometric noise G of parameter ``count_epsilon``, at
    least 0; where that is below n, objects chosen at random are left out. Dummies have a uniform place, class and size.

    Args:
        objects: ``(M,)`` records.
        config: ``count_epsilon`` None returns the objects as they are.
        rng: the generator of the count stream.
    """
    if config.count_epsilon is None:
        return objects
    number = int(padded_numbers(len(objects), config, (), rng))
    everyone = np.concatenate([rng.permutation(objects)[:number], _dummies(max(0, number - len(objects)), rng)])
    return rng.permutation(everyone)


def padded_numbers(
    count: int, config: DescriptorConfig, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return draws of the number that is released for ``count`` objects; ``count`` itself without ``count_epsilon``."""
    if config.count_epsilon is None:
        return np.full(shape, count, np.int64)
    numbers = count + config.count_margin + two_sided_geometric(config.count_epsilon, shape, rng)
    return np.minimum(np.maximum(numbers, 0), config.count_limit)


def release_descriptors(objects: np.ndarray, config: DescriptorConfig, streams: RandomStreams) -> np.ndarray:
    """Return objects with class, size, score and order released as configured, and z 0; centres and cells are left to
    the location mechanism.

    Raises:
        ValueError: a label outside the ten classes, or a size that is NaN or infinite, where it is to be randomized.
    """
    released = objects.copy()
    if config.shuffle:
        released = streams.count.permutation(released)
    if config.label_epsilon is not None:
        released["label"] = release_labels(released["label"], config.label_epsilon, streams.label)
    if config.size_epsilon is not None:
        sizes = np.stack([released["w"], released["h"]], axis=1)
        released["w"], released["h"] = release_sizes(sizes, config.size_epsilon, streams.size).T
    if config.hide_score:
        released["score"] = 1.0
    released["z"] = 0.0  # whatever a detector may have put there
    return released


def release_labels(labels: ArrayLike, label_epsilon: float, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return classes after randomized response: the true one with ``e^eps / (e^eps + 9)``, else one of the others
    evenly.

    Raises:
        ValueError: label_epsilon out of range, or a label outside the ten classes.
    """
    kinds = len(scene.OBJECT_CLASSES)
    labels = np.asarray(labels, np.int64)
    if labels.size and not (labels.min() >= 0 and labels.max() < kinds):
        raise ValueError(
            f"label must be in 0..{kinds - 1}, got {labels.min()}..{labels.max()}; see scene.OBJECT_CLASSES"
        )
    lie = rng.random(labels.shape) >= label_accuracy(label_epsilon)
    shift = rng.integers(1, kinds, labels.shape)
    return ((labels + lie * shift) % kinds).astype(np.int32)


def label_accuracy(label_epsilon: float) -> float:
    """Return how often a released class is the true one: the accuracy that randomized response leaves.

    Raises:
        ValueError: label_epsilon out of range.
    """
    return float(1 / (1 + (len(scene.OBJECT_CLASSES) - 1) * np.exp(-positive("label_epsilon", label_epsilon))))


def release_sizes(sizes: ArrayLike, size_epsilon: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return box sizes with two-sided geometric noise on their octaves.

    Sizes are rounded to whole sixteenths of an octave between 2^-8 and 1, noise is added to each axis as an integer,
    and the result is brought back into that range: a change by one octave in all, width and height together, costs at
    most ``size_epsilon``. Rounding can make 17 sixteenths of the 16, hence the noise's parameter of
    ``size_epsilon / 17``.

    Args:
        sizes: ``(M, 2)`` normalized widths and heights; zero and negative ones count as the smallest.
        size_epsilon: budget for one octave.
        rng: the generator of the size stream.

    Raises:
        ValueError: size_epsilon out of range, or a size that is NaN or infinite.
    """
    sizes = np.asarray(sizes, np.float64).reshape(-1, 2)
    if not np.isfinite(sizes).all():
        raise ValueError("sizes hold NaN or infinity; drop the object or the frame")
    size_epsilon = float(positive("size_epsilon", size_epsilon))
    steps = np.rint(np.log2(sizes.clip(2.0**-OCTAVES, 1.0)) * STEPS).astype(np.int64)
    steps += two_sided_geometric(size_epsilon / (STEPS + 1), steps.shape, rng)
    return np.exp2(steps.clip(-OCTAVES * STEPS, 0) / STEPS).astype(np.float32)


def two_sided_geometric(epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return integers k with probability proportional to ``exp(-epsilon |k|)``: the difference of two geometric draws.

    Raises:
        ValueError: epsilon out of range, or below 1e-12: int64 would not hold every draw.
    """
    if positive("epsilon", epsilon) < 1e-12:
        raise ValueError(f"epsilon of integer noise must be at least 1e-12, got {epsilon}; drop the object instead")
    success = float(-np.expm1(-epsilon))
    return np.asarray(rng.geometric(success, shape) - rng.geometric(success, shape), np.int64)


def _dummies(number: int, rng: np.random.Generator) -> np.ndarray:
    sizes = np.exp2(-rng.uniform(0, OCTAVES, (number, 2)))
    labels = rng.integers(0, len(scene.OBJECT_CLASSES), number)
    return scene.make_objects(rng.random((number, 2)), sizes, labels, rng.random(number))
