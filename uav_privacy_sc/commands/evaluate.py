"""``evaluate``: a paper's table, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, progress_bar
from uav_privacy_sc.commands.cores import one_core


@dataclass(frozen=True)
class EvaluationOrder:
    """Which protocol, at which budget, over how many draws; the results go into ``out``."""

    protocol: str
    out: Path
    epsilon: float = 1.0
    delta: float = 1e-5
    draws: int = 30
    seed: int | None = None
    as_json: bool = False


def carry_out(order: EvaluationOrder) -> int:
    """Run a protocol, write its CSV and print its table; return 0.

    Raises:
        ValueError: no such protocol, a parameter out of its range, or a folder that cannot be written; one line.
    """
    if order.protocol not in PROTOCOLS:
        raise BadInput(f"protocol is {order.protocol!r}; choose one of {', '.join(PROTOCOLS)}")
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        with one_core():  # before NumPy is loaded: times are compared
            PROTOCOLS[order.protocol](order)
    except OSError as error:
        raise BadInput(f"out folder {order.out} cannot be written: {error.strerror or error}") from None
    return 0


def _matrix(order: EvaluationOrder) -> None:
    from uav_privacy_sc.evaluation.headline import delta_text
    from uav_privacy_sc.evaluation.matrix_protocol import matrix_table, write_csv
    from uav_privacy_sc.privacy.matrix_comparison import PUBLISHED_SECONDS, SHAPES
    from uav_privacy_sc.privacy.randomness import RandomStreams

    with progress_bar() as bar:
        task = bar.add_task("measuring", total=len(SHAPES) * (len(PUBLISHED_SECONDS) + 1), note="")
        rng = RandomStreams(order.seed).visual
        rows = matrix_table(order.epsilon, order.delta, rng, order.draws, lambda: bar.advance(task))
    path = order.out / "matrix.csv"
    write_csv(path, rows)
    if order.as_json:
        setting = {"epsilon": order.epsilon, "delta": order.delta, "draws": order.draws, "seed": order.seed}
        print_json({"protocol": order.protocol, **setting, "rows": [asdict(row) for row in rows]})
        return
    print_lines(
        [
            ("protocol", "P2, Tables 2 and 3: entries in [-1, 1], any of which may change"),
            ("budget", f"epsilon {order.epsilon:g}, delta {delta_text(order.delta)}"),
            ("measured", f"over {order.draws} draws; times relative to the tight Gaussian, P2's in brackets"),
            ("written", str(path)),
        ]
    )
    for name, shape in SHAPES.items():
        title = f"{shape[0]}x{shape[1]}"
        table = [
            (
                row.mechanism,
                row.form,
                f"{row.theoretical:.3e}",
                f"{row.measured:.3e}",
                f"{row.ratio:,.2f}" if row.ratio < 1e7 else f"{row.ratio:.2e}",
                f"{row.actual_epsilon:.3g}",
                f"{row.relative_time:.2f}"
                + ("" if row.published_relative_time is None else f" ({row.published_relative_time:.3g})"),
            )
            for row in rows
            if row.of == name
        ]
        print_lines([("", "")])
        heads = (title, "", "E‖Z‖²", "measured", "/ tight", "gives", "time")
        print_table(heads, table, words=2)


#: What can be evaluated; a further protocol joins here.
PROTOCOLS: dict[str, Callable[[EvaluationOrder], None]] = {"matrix": _matrix}
