"""An evaluation as one page: figures first, tables after them, nothing from elsewhere."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from uav_privacy_sc.evaluation.evaluation import Evaluation, Outcome
from uav_privacy_sc.evaluation.figures import Figure, draw
from uav_privacy_sc.evaluation.result_tables import ResultTable


def write_report(path: Path, evaluation: Evaluation) -> Path:
    """Write the page of an evaluation.

    Raises:
        OSError: it cannot be written.
    """
    path.write_text(render(evaluation), encoding="utf-8")
    return path


def render(evaluation: Evaluation) -> str:
    """Return the page: self-contained, without a script."""
    environment = Environment(
        loader=PackageLoader("uav_privacy_sc.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    setting, made = evaluation.setting, evaluation.manifest
    dataset = made.get("dataset", {})
    facts = [
        ("dataset", dataset.get("name", "none needed")),
        ("samples", f"{dataset['samples']}, of them {dataset['with_people']} with people" if dataset else "–"),
        ("seeds", str(setting.seeds)),
        ("profile", setting.profile),
        ("scale", setting.preset.about),
        ("version", f"{made['version']}, Python {made['python']}, {made['machine']}"),
        *((f"weights {name}", digest[:16]) for name, digest in made["weights_sha256"].items()),
    ]
    return environment.get_template("evaluation.html.j2").render(
        version=made["version"],
        facts=facts,
        notes=[*evaluation.notes, *(f"{name} left out: {why}" for name, why in evaluation.skipped.items())],
        sections=[_section(outcome) for outcome in evaluation.outcomes],
    )


def _section(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.protocol.name,
        "about": outcome.protocol.about,
        "seconds": f"{outcome.seconds:.0f}",
        "figures": [(figure.title, figure_html(figure)) for figure in outcome.figures],
        "tables": [table_html(table) for table in outcome.tables],
        "notes": outcome.notes,
        "missing": [f"{m}: {why} ({count})" for (m, why), count in sorted(outcome.results.missing().items())],
    }


def figure_html(figure: Figure) -> str:
    """Return a plot as inline SVG, pictures as an inline PNG."""
    if not figure.pictures:
        return figure.svg()
    buffer = io.BytesIO()
    draw(figure).savefig(buffer, format="png", dpi=140)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{html.escape(figure.title)}">'


def table_html(table: ResultTable) -> str:
    """Return a table as HTML."""
    heads = "".join(
        f'<th scope="col"{" class=word" if place < table.words else ""}>{html.escape(head)}</th>'
        for place, head in enumerate(table.heads)
    )
    rows = "".join(_row_html(row, table.words) for row in table.rows)
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    caption = f"<caption>{html.escape(table.title)}</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def _row_html(row: tuple[str, ...], words: int) -> str:
    published = ' class="paper"' if row[0].startswith("  P1") else ""
    cells = "".join(
        f"<td{' class=word' if place < words else ''}>{_cell_html(cell)}</td>" for place, cell in enumerate(row)
    )
    return f"<tr{published}>{cells}</tr>"


def _cell_html(cell: str) -> str:
    """Return a cell; the p and n of a test go below its difference, so that wide tables fit the page."""
    difference, bracket, test = cell.partition(" (")
    if not (bracket and "±" in difference):
        return html.escape(cell)
    return f"{html.escape(difference)}<br><small>{html.escape(test.removesuffix(')'))}</small>"
