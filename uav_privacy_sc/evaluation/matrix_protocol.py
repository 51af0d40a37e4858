"""P2's comparison as one table: every matrix mechanism as its paper states it and in its tight form.

Where all that is known of two neighbours is a bound on the norm of their difference, a direction gains nothing, and the
tight form of UDN and MVG is the Gaussian itself (``privacy.matrix``); it stands there under their names.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from uav_privacy_sc.privacy import matrix
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, gaussian_sigma
from uav_privacy_sc.privacy.matrix import MatrixNoise
from uav_privacy_sc.privacy.matrix_comparison import SHAPES, ComparisonRow, compare

LOW, HIGH = -1.0, 1.0
PUBLISHED, TIGHT = "published", "tight"
#: Rows of ``compare`` by mechanism and form.
_FORMS = {
    "gaussian": ("gaussian", TIGHT),
    "udn": ("udn", PUBLISHED),
    "idn": ("idn", PUBLISHED),
    "idn_tight": ("idn", TIGHT),
    "mvg": ("mvg", PUBLISHED),
    "mm": ("mm", TIGHT),
}
_ORDER = ("gaussian", "udn", "idn", "mvg", "mm")


@dataclass(frozen=True)
class MatrixRow:
    """One line: a mechanism in one form for one shape, entries in [-1, 1], any of which may change.

    Attributes:
        shape: rows by columns; ``of`` says whose.
        mechanism, form: name, and ``published`` or ``tight``.
        theoretical: expected squared Frobenius norm of the noise, E||Z||^2.
        measured, standard_error: mean over draws, and its standard error.
        ratio: ``theoretical`` over that of the tight Gaussian.
        actual_epsilon: what the noise really gives at delta.
        milliseconds: median time of setting up and drawing once.
        relative_time: the same over that of the tight Gaussian.
        published_relative_time: what P2 Table 3 says, None where it says nothing.
    """

    of: str
    shape: str
    mechanism: str
    form: str
    theoretical: float
    measured: float
    standard_error: float
    ratio: float
    actual_epsilon: float
    milliseconds: float
    relative_time: float
    published_relative_time: float | None


def matrix_rows(of: str, epsilon: float, delta: float, rng: np.random.Generator, draws: int = 30) -> list[MatrixRow]:
    """Return the rows of one of ``SHAPES``, mechanism by mechanism, the published form before the tight one.

    Raises:
        ValueError: a parameter out of its range.
    """
    found = _measured(of, SHAPES[of], epsilon, delta, rng, draws)
    return sorted(found, key=lambda row: (_ORDER.index(row.mechanism), row.form))


def _measured(
    of: str, shape: tuple[int, int], epsilon: float, delta: float, rng: np.random.Generator, draws: int
) -> Iterator[MatrixRow]:
    for row in compare(shape, epsilon, delta, rng, draws, LOW, HIGH):
        line = _line(of, shape, row)
        yield line
        if row.mechanism == "gaussian":
            yield _classical(line, shape, epsilon, delta, rng, draws)
            for name in ("udn", "mvg"):
                yield replace(line, mechanism=name, published_relative_time=None)


def growth(mechanism: str, form: str, epsilon: float, delta: float, shape: tuple[int, int]) -> tuple[float, float]:
    """Return how fast the expected energy grows with rows and with columns, as the exponent of each at this shape.

    By doubling one of them: ``log2 E(2m, n) / E(m, n)`` and ``log2 E(m, 2n) / E(m, n)``.
    """

    def energy(rows: int, columns: int) -> float:
        return _energy(mechanism, form, (rows, columns), epsilon, delta)

    m, n = shape
    once = energy(m, n)
    return math.log2(energy(2 * m, n) / once), math.log2(energy(m, 2 * n) / once)


def _energy(mechanism: str, form: str, shape: tuple[int, int], epsilon: float, delta: float) -> float:
    reach = (HIGH - LOW) * math.sqrt(shape[0] * shape[1])
    if form == TIGHT and mechanism != "idn":
        return float(matrix.gaussian(shape, epsilon, delta, reach).energy)
    if mechanism == "gaussian":
        return shape[0] * shape[1] * float(gaussian_sigma(epsilon, delta, reach, "classical")) ** 2
    if mechanism == "idn":
        return float(matrix.idn(shape, epsilon, delta, LOW, HIGH, tight=form == TIGHT).energy)
    if mechanism == "udn":
        return float(matrix.udn(shape, epsilon, delta, reach).energy)
    return float(matrix.mvg(shape, epsilon, delta, reach, reach / 2).energy)


def _line(of: str, shape: tuple[int, int], row: ComparisonRow) -> MatrixRow:
    mechanism, form = _FORMS[row.mechanism]
    shared = {item.name: getattr(row, item.name) for item in fields(MatrixRow) if hasattr(row, item.name)}
    more = {"of": of, "shape": f"{shape[0]}x{shape[1]}", "mechanism": mechanism, "form": form}
    return MatrixRow(**{**shared, **more, "milliseconds": row.seconds * 1e3})


def _classical(
    tight: MatrixRow, shape: tuple[int, int], epsilon: float, delta: float, rng: np.random.Generator, draws: int
) -> MatrixRow:
    """Return the line of the Gaussian as papers calibrate it; its time is that of the tight one."""
    reach = (HIGH - LOW) * float(np.sqrt(shape[0] * shape[1]))
    sigma = float(gaussian_sigma(epsilon, delta, reach, "classical"))
    noise = MatrixNoise(np.full(shape[0], sigma), np.ones(shape[1]))
    energies = [float(np.sum(noise.sample(rng) ** 2)) for _ in range(draws)]
    return replace(
        tight,
        form=PUBLISHED,
        theoretical=noise.energy,
        measured=float(np.mean(energies)),
        standard_error=float(np.std(energies, ddof=1) / np.sqrt(draws)),
        ratio=noise.energy / tight.theoretical,
        actual_epsilon=float(epsilon_from_mu(reach / sigma, delta)),
    )


def write_csv(path: Path, rows: list[MatrixRow]) -> None:
    """Write the rows under their names; what is not known stays empty.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([item.name for item in fields(MatrixRow)])
        for row in rows:
            values = [getattr(row, item.name) for item in fields(MatrixRow)]
            writer.writerow(["" if value is None else value for value in values])
