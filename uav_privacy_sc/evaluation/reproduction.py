"""Write docs/reproduction.md from the folder of an evaluation, which ``--measure`` makes first or goes on with.

``python -m uav_privacy_sc.evaluation.reproduction --measure OUT docs/reproduction.md``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation.contradictions import contradictions
from uav_privacy_sc.evaluation.explanations import why
from uav_privacy_sc.evaluation.measurement import Results, read_csv
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.published import PUBLISHED, PublishedValue
from uav_privacy_sc.evaluation.result_tables import with_interval
from uav_privacy_sc.evaluation.statistics import Estimate, estimate

#: Which protocol measures what a section publishes.
_PROTOCOLS = {
    "5.6": "tradeoff",
    "5.7": "scenarios",
    "5.8": "ablation",
    "Table 3": "attackers",
    "5.9": "convergence",
    "Table 4": "runtime",
}
#: Tables of an evaluation that the document shows whole, where they are there.
_WHOLE = (
    ("Does region-aware beat uniform?", ("tradeoff", "tradeoff-equal-epsilon")),
    ("The same at equal success of the attacker", ("tradeoff-equal-success", "tradeoff-equal-success-adaptive")),
    ("One part left out at a time", ("ablation", "ablation-paired", "ablation-control")),
    ("All attackers", ("attackers-paired", "attackers-location", "attackers-map", "attackers-descriptors")),
    ("Averaging over frames", ("attackers-frames",)),
    ("What people use today", ("baseline", "baseline-choice")),
    ("Places", ("location", "location-published")),
    ("Optimizer", ("convergence",)),
    ("Time and memory", ("runtime",)),
    ("Matrix mechanisms (P2)", ("matrix-energy", "matrix-order", "matrix-time")),
)

INTRODUCTION = """\
# Reproduction of P1

Measured and written by one command, which goes on where it was interrupted (other weights or code need a new folder):

    python -m uav_privacy_sc.evaluation.reproduction --measure out/reproduction docs/reproduction.md

It is `uav-privacy-sc evaluate --protocol all --samples 20 --seeds 1 --preset quick --out out/reproduction`, then the
same without `--measure`. Metrics are defined in [metrics.md](metrics.md). Ours are means with 95 % intervals by
Student's t over samples, seeds averaged within each; published intervals are as printed.

Our networks are trained on rendered flights, since neither VisDrone nor weights come with the package; P1 does not give
its encoder, decoder, link budget or weights of the utility. So levels differ where they depend on these. What should
agree is what follows from mechanisms alone, and where it does not, the second section has the calculation; where P1
can be read in more than one way, under each reading.
"""

_DIGITS = {"psnr_sensitive": 2, "snr_db": 2, "time_ms": 3, "memory_kb": 1, "category_accuracy": 3}
USAGE = "usage: python -m uav_privacy_sc.evaluation.reproduction [--measure] OUT [docs/reproduction.md]"


class Folder:
    """The measurements of an evaluation's folder, by protocol."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.manifest: dict[str, Any] = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is no folder of an evaluation: {error}") from None
        self._results: dict[str, Results | None] = {}

    def results(self, protocol: str) -> Results | None:
        """Return a protocol's measurements, None where it was not run."""
        if protocol not in self._results:
            path = self.path / f"measurements-{protocol}.csv"
            self._results[protocol] = Results(read_csv(path)) if path.is_file() else None
        return self._results[protocol]

    def table(self, name: str) -> str | None:
        """Return a table as it was written in markdown."""
        path = self.path / f"{name}.md"
        return path.read_text(encoding="utf-8") if path.is_file() else None


def document(folder: Path) -> str:
    """Return the document.

    Raises:
        ValueError: the folder is not that of an evaluation.
    """
    found = Folder(folder)
    parts = [INTRODUCTION, _setting(found.manifest), _numbers(found), _calculations()]
    for title, names in _WHOLE:
        tables = [text for name in names if (text := found.table(name)) is not None]
        if tables:
            parts.append(f"## {title}\n\n" + "\n".join(tables))
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _setting(manifest: dict[str, Any]) -> str:
    setting, dataset = manifest["setting"], manifest.get("dataset", {})
    weights = ", ".join(f"{name} {digest[:12]}" for name, digest in manifest["weights_sha256"].items())
    lines = [
        f"dataset: {dataset.get('name', 'none needed')}, {dataset.get('samples', 0)} samples, "
        f"{dataset.get('with_people', 0)} of them with people; {setting['seeds']} seeds each",
        f"profile {setting['profile']}; {manifest['scale']}",
        f"weights: {weights}",
    ]
    return "## Made with\n\n" + "".join(f"- {line}\n" for line in lines)


def ours(found: Folder, item: PublishedValue) -> Estimate | Missing:
    """Return our value of a published one."""
    protocol = "attackers" if _of_gradient(item) else _PROTOCOLS[item.section]
    results = found.results(protocol)
    if results is None:
        return Missing(f"protocol {protocol} was not run")
    values = results.values(item.metric, item.mechanism, **_key(item))
    return estimate(values.values(), results.reason(item.metric, item.mechanism, **_key(item)))


def _key(item: PublishedValue) -> dict[str, Any]:
    key: dict[str, Any] = {"epsilon_v": item.epsilon_v, "attacker": item.attacker, "condition": item.condition}
    if item.section == "5.6":
        key["kappa_bg"] = 1.12 if item.mechanism == "region_aware" else None
        if item.metric == "category_accuracy":
            key["condition"] = "with the prior"
        if item.metric == "ssim_sensitive":
            key["attacker"] = "inverter"
    if _of_gradient(item):
        key |= {"attacker": "gradient", "epsilon_v": None if item.mechanism == "none" else item.epsilon_v}
    return key


def _of_gradient(item: PublishedValue) -> bool:
    """Return whether a value is of the gradient attacker at a fixed budget (P1 5.5), which ``attackers`` runs."""
    return item.section == "5.8" and item.metric in ("ssim", "ssim_sensitive")


def _numbers(found: Folder) -> str:
    rows = []
    for item in PUBLISHED:
        digits = _DIGITS.get(item.metric, 4)
        half = "" if item.half_width is None else f" ± {item.half_width:g}"
        budget = "" if item.epsilon_v is None else f", ε_v {item.epsilon_v:g}"
        what = ", ".join(part for part in (item.mechanism.replace("_", "-"), item.attacker, item.condition) if part)
        value = ours(found, item)
        cell = f"– ({value.reason})" if isinstance(value, Missing) else with_interval(value, digits)
        reason = why(found, item, value)
        rows.append((item.section, item.metric.replace("_", " "), what + budget, f"{item.value:g}{half}", cell, reason))
    heads = ("P1", "metric", "of", "P1's", "ours", "why they differ")
    return "## Number by number\n\n" + _markdown(heads, rows)


def _calculations() -> str:
    text = "## What the published equations do not allow, or under one reading only\n\n"
    text += (
        "Where P1 leaves the reading open, the row says which reading it is about and what the other gives. "
        "Each row is computed by `evaluation/contradictions.py` and held by `test_evaluation_contradictions.py`.\n\n"
    )
    rows = [(item.title, f"{item.published:.4g}", f"{item.bound:.4g}", item.text) for item in contradictions()]
    return text + _markdown(("what", "published or needed", "allowed or true", "the calculation"), rows)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def main(words: Sequence[str]) -> int:
    """Write the document of a folder to a file, or print it; return the exit status."""
    measure, words = "--measure" in words, [word for word in words if word != "--measure"]
    if len(words) not in (1, 2) or any(word.startswith("-") for word in words):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        status = _measure(Path(words[0])) if measure else 0
        if status:
            return status
        text = document(Path(words[0]))
        if len(words) == 2:
            Path(words[1]).write_text(text, encoding="utf-8")
        else:
            print(text, end="")
    except (ValueError, OSError) as error:
        print(f"reproduction: error: {error}", file=sys.stderr)
        return 2
    return 0


def _measure(folder: Path) -> int:
    """Run all protocols with their defaults into the folder, as the command line does; return the exit status."""
    from uav_privacy_sc.commands.evaluate import EvaluationOrder, carry_out

    return carry_out(EvaluationOrder("all", folder))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
