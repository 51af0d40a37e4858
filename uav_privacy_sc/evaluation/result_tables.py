"""Tables of results as CSV, LaTeX and markdown. How a number is written down is decided here."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.statistics import Estimate, PairedTest, holm

#: What stands where nothing could be measured; the reason is below the table.
ABSENT = "–"
_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "±": r"$\pm$"}
_LATEX |= {
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "ε": r"$\varepsilon$",
    "κ": r"$\kappa$",
    "–": "--",
    "−": "$-$",
    "…": r"\dots{}",
}
_LATEX |= {"∞": r"$\infty$", "→": r"$\to$", "×": r"$\times$", "σ": r"$\sigma$"}


@dataclass(frozen=True)
class ResultTable:
    """A table: rows of text below their heads, the first ``words`` columns to the left, and notes below it."""

    name: str
    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()
    words: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.heads):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells below {len(self.heads)} heads")

    def csv(self) -> str:
        """Return it as CSV, notes left out."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows)
        return buffer.getvalue()

    def markdown(self) -> str:
        """Return it as a GitHub table with title and notes."""
        align = ["---" if place < self.words else "--:" for place in range(len(self.heads))]
        lines = [self.heads, align, *self.rows]
        body = "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)
        notes = "".join(f"{note}  \n" for note in self.notes)
        return f"**{self.title}**\n\n{body}\n{notes}".rstrip() + "\n"

    def latex(self) -> str:
        """Return it as a LaTeX ``table`` with rules of booktabs."""
        columns = "l" * self.words + "r" * (len(self.heads) - self.words)
        lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (self.heads, *self.rows)]
        notes = "".join(f"\\\\ {{\\footnotesize {latex_text(note)}}}\n" for note in self.notes)
        return (
            f"\\begin{{table}}\n\\centering\n\\caption{{{latex_text(self.title)}}}\n\\label{{tab:{self.name}}}\n"
            f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{lines[0]}\n\\midrule\n"
            + "\n".join(lines[1:])
            + f"\n\\bottomrule\n\\end{{tabular}}\n{notes}\\end{{table}}\n"
        )

    def write(self, folder: Path) -> list[Path]:
        """Write all three below a folder and return their paths.

        Raises:
            OSError: it cannot be written.
        """
        forms: dict[str, Callable[[], str]] = {"csv": self.csv, "md": self.markdown, "tex": self.latex}
        paths = []
        for suffix, text in forms.items():
            path = folder / f"{self.name}.{suffix}"
            path.write_text(text(), encoding="utf-8")
            paths.append(path)
        return paths


def latex_text(text: str) -> str:
    """Return text with what LaTeX takes for commands made harmless."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def with_interval(found: Estimate | Missing, digits: int = 3) -> str:
    """Return a mean with the half-width of its 95 % interval."""
    if isinstance(found, Missing):
        return ABSENT
    if found.half_width is None:
        return f"{found.mean:.{digits}f} (n = 1)"
    return f"{found.mean:.{digits}f} ± {found.half_width:.{digits}f}"


def with_count(found: Estimate | Missing) -> str:
    """Return a share with the number of samples that it is of."""
    return ABSENT if isinstance(found, Missing) else f"{found.mean:.1%} of {found.n}"


def with_test(found: PairedTest | Missing, digits: int = 3) -> str:
    """Return a paired difference with its interval, p and number of samples."""
    if isinstance(found, Missing):
        return ABSENT
    mean, reach = found.difference.mean, found.difference.half_width or 0
    return f"{mean:+.{digits}f} ± {reach:.{digits}f} ({p_value(found.p)}, n = {found.difference.n})"


#: A cell of a table of tests: text, or a test with its number of digits.
Cell = str | tuple[PairedTest | Missing, int]


def with_tests(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return rows as text, p corrected by Holm over all tests of the table, and the notes that belong below it."""
    tests = [cell[0] for row in rows for cell in row if isinstance(cell, tuple) and isinstance(cell[0], PairedTest)]
    corrected = iter(holm(tests))
    text, missing = [], []
    for row in rows:
        cells = []
        for head, cell in zip(heads, row, strict=True):
            if isinstance(cell, str):
                cells.append(cell)
                continue
            if isinstance(cell[0], Missing):
                missing.append((f"{row[0]}, {head}", cell[0]))
            cells.append(with_test(cell[0] if isinstance(cell[0], Missing) else next(corrected), cell[1]))
        text.append(tuple(cells))
    count = sum(test.p is not None for test in tests)
    note = (f"p is corrected by Holm's method for the {count} tests of this table.",) if count > 1 else ()
    return text, (*note, *reasons(missing))


def p_value(p: float | None) -> str:
    """Return a p value as papers write it."""
    if p is None:
        return "no spread, not tested"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def plain(value: float | None, digits: int = 3) -> str:
    """Return a number, or the sign for none."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def reasons(found: Sequence[tuple[str, Estimate | PairedTest | Missing]]) -> tuple[str, ...]:
    """Return a note for each reason why something could not be measured, and one of the samples that means are of."""
    why: dict[str, list[str]] = {}
    sizes: dict[str, list[int]] = {}
    for name, item in found:
        if isinstance(item, Missing):
            why.setdefault(item.reason, []).append(name)
        elif isinstance(item, Estimate):
            sizes.setdefault(name, []).append(item.n)
    notes = [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in sorted(why.items())]
    spans = {
        name: f"{min(many)}" if min(many) == max(many) else f"{min(many)} to {max(many)}"
        for name, many in sizes.items()
    }
    if spans:
        same = len(set(spans.values())) == 1
        each = next(iter(spans.values())) if same else ", ".join(f"{name} {span}" for name, span in spans.items())
        notes.append(f"Samples (n): {each}.")
    return tuple(notes)
