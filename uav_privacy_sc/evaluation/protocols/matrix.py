"""P2's comparison of matrix mechanisms (Tables 2 and 3): noise energy and time, as published and tight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial

from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.matrix_protocol import MatrixRow, growth, matrix_rows
from uav_privacy_sc.evaluation.measurement import Measurement, Results, measured
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import ResultTable, plain
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.privacy.matrix_comparison import PUBLISHED_SECONDS, SHAPES
from uav_privacy_sc.privacy.randomness import RandomStreams

NAME = "matrix"
_NUMBERS = tuple(item.name for item in fields(MatrixRow) if item.type == "float")
#: P2 Table 2: the order of each expected energy in rows m and columns n.
PUBLISHED_GROWTH = {
    "gaussian": (3, 3, "O(m^3 n^3)"),
    "mvg": (4, 3, "O(m^4 n^3 ln^2(m+1))"),
    "udn": (4, 3, "O(m^4 n^3)"),
    "idn": (3, 3, "O(m^3 n^3)"),
}
#: How far an exponent may be from a printed one and still be called the same: logarithms and lower terms.
_NEAR = 0.1


def units(setting: Setting, store: SampleStore | None) -> Iterator[Unit]:
    """Yield one unit a shape."""
    for of in SHAPES:
        yield Unit(of, partial(measure, of, setting))


def measure(of: str, setting: Setting) -> list[Measurement]:
    """Return every number of every row of one shape."""
    scale, rng = setting.matrix, RandomStreams(setting.noise_seed(f"matrix {of}", 0)).visual
    found = []
    for row in matrix_rows(of, scale.epsilon, scale.delta, rng, scale.draws):
        about = {"protocol": NAME, "mechanism": row.mechanism, "sample": of, "seed": 0, "condition": row.form}
        found += [measured(getattr(row, name), metric=name, **about) for name in _NUMBERS]
    return found


def rows_of(results: Results) -> list[MatrixRow]:
    """Return the rows again that were measured, in their order."""
    found = []
    for of in results.distinct("sample"):
        shape = "x".join(map(str, SHAPES[of]))
        for mechanism in results.distinct("mechanism", sample=of):
            for form in results.distinct("condition", sample=of, mechanism=mechanism):
                numbers = {name: results.values(name, mechanism, condition=form)[of] for name in _NUMBERS}
                theirs = _theirs(mechanism) if form == "published" or mechanism in ("gaussian", "mm") else None
                found.append(MatrixRow(of, shape, mechanism, form, **numbers, published_relative_time=theirs))
    return found


def _theirs(mechanism: str) -> float | None:
    """Return P2's time over that of its Gaussian."""
    seconds = PUBLISHED_SECONDS.get(mechanism)
    return None if seconds is None else seconds / PUBLISHED_SECONDS["gaussian"]


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return P2's Tables 2 and 3 beside ours."""
    rows = rows_of(results)
    return [_energies(rows, setting), _orders(rows, setting), _times(rows, setting)]


def _energies(rows: list[MatrixRow], setting: Setting) -> ResultTable:
    lines = [
        (
            row.shape,
            row.mechanism,
            row.form,
            f"{row.theoretical:.3e}",
            f"{row.measured / row.theoretical:.3f} ± {2 * row.standard_error / row.theoretical:.3f}",
            f"{row.ratio:,.2f}" if row.ratio < 1e7 else f"{row.ratio:.2e}",
            f"{row.actual_epsilon:.3g}",
        )
        for row in rows
    ]
    heads = ("shape", "mechanism", "form", "E‖Z‖²", "measured", "/ tight", "gives")
    scale = setting.matrix
    note = (
        f"Entries in [-1, 1], any of which may change; ε = {scale.epsilon:g}, δ = {scale.delta:g} claimed by all. "
        f"Measured: the mean over {scale.draws} draws in parts of E‖Z‖², ± two standard errors. Gives: the ε that this "
        "noise really has at δ."
    )
    return ResultTable("matrix-energy", "Noise of matrix mechanisms", heads, lines, (note,), words=3)


def _orders(rows: list[MatrixRow], setting: Setting) -> ResultTable:
    lines, differing = [], []
    for row in rows:
        theirs = PUBLISHED_GROWTH.get(row.mechanism)
        if theirs is None or row.form != "published":
            continue
        ours = growth(row.mechanism, row.form, setting.matrix.epsilon, setting.matrix.delta, SHAPES[row.of])
        same = max(abs(one - other) for one, other in zip(ours, theirs[:2], strict=True)) <= _NEAR
        if not same:
            differing.append(row.mechanism)
        lines.append((row.shape, row.mechanism, "m^{:.2f} n^{:.2f}".format(*ours), theirs[2], "yes" if same else "no"))
    heads = ("shape", "mechanism", "E‖Z‖² grows as", "P2", "same")
    notes: tuple[str, ...] = (
        "By doubling rows m, then columns n, at this shape; as published, not tight. P2's Table 2 has orders and no "
        f"numbers; they are called the same where both exponents are within {_NEAR:g}.",
    )
    if "gaussian" in differing:
        notes += (
            "Gaussian: P2's own m n σ² with its own sensitivity 2√(mn) is of the order m² n², not the m³ n³ it prints.",
        )
    return ResultTable("matrix-order", "Orders of the noise (P2 Table 2)", heads, lines, notes, words=2)


def _times(rows: list[MatrixRow], setting: Setting) -> ResultTable:
    lines = []
    for row in rows:
        theirs = row.published_relative_time
        seconds = PUBLISHED_SECONDS[row.mechanism] if theirs is not None else None
        lines.append(
            (
                row.shape,
                row.mechanism,
                row.form,
                f"{row.milliseconds:.2f}",
                f"{row.relative_time:.2f}",
                "–" if seconds is None else f"{seconds * 1e3:.2f}",
                plain(theirs, 2),
            )
        )
    heads = ("shape", "mechanism", "form", "median (ms)", "/ tight", "P2 (ms)", "/ its Gaussian")
    notes = (
        f"Setting up and drawing once, medians of {setting.matrix.draws}, one core. P2 times on a Xeon Silver 4116, "
        "does not say which of its three shapes, and counts an SVD for MVG and an optimization for MM in CVXPY, which "
        "an identity query does not need. Where the tight form is the Gaussian itself, its time is the Gaussian's.",
    )
    return ResultTable("matrix-time", "Time of matrix mechanisms (P2 Table 3)", heads, lines, notes, words=3)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return energies over the tight Gaussian's, and times over its time beside P2's."""
    rows = rows_of(results)
    names = list(dict.fromkeys(row.mechanism for row in rows))
    panels = []
    for value, label in (("ratio", "expected energy / tight Gaussian's"), ("relative_time", "time / tight Gaussian's")):
        series = []
        for number, (of, form) in enumerate((of, form) for of in SHAPES for form in ("published", "tight")):
            here = [row for row in rows if row.of == of and row.form == form]
            places = [names.index(row.mechanism) for row in here]
            series.append(Series(f"{of}, {form}", places, [getattr(row, value) for row in here], colour=number))
        if value == "relative_time":
            theirs = [(place, _theirs(name)) for place, name in enumerate(names)]
            known = [(place, time) for place, time in theirs if time is not None]
            series.append(Series("P2", [p for p, _ in known], [t for _, t in known], published=True))
        panels.append(Panel("", "", label, series, "bars", names, log_y=True))
    return [Figure("matrix", "Matrix mechanisms as published and tight (P2 Tables 2 and 3)", panels, stretch=1.2)]


PROTOCOL = Protocol(
    NAME, "matrix mechanisms, published and tight (P2 Tables 2 and 3)", "nothing", units, tables, figures, serial=True
)
