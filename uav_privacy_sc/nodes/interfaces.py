"""Write ``docs/interfaces.md``: topics, types, quality of service and parameters, as the code has them.

``python -m uav_privacy_sc.nodes.interfaces docs/interfaces.md``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from uav_privacy_sc.graph import DISCOVERY_RANGE, NODES, QOS, TOPICS, NodeSpec
from uav_privacy_sc.nodes.flight import CLASSES
from uav_privacy_sc.nodes.managed import LifecycleParameters

ABOUT = "Write topics, types, quality of service and parameters of the nodes, as the code has them, as Markdown."
HEAD = """# Interfaces

Generated from the code by `python -m uav_privacy_sc.nodes.interfaces docs/interfaces.md`; a test keeps it current.

All names are relative: a namespace is one aircraft. Every node is a managed node (`ros2 lifecycle`), brings itself to
active unless `autostart` is false, and publishes `diagnostics` (`diagnostic_msgs/msg/DiagnosticArray`): lifecycle
state, rate, times of each stage (median and 95th percentile), what was dropped and why, device, SNR, budgets left,
mismatched quality of service, versions that do not fit.

"""
OVERRIDES = """Reliability, durability and depth of each are read-only parameters of the node that publishes or
subscribes: `qos_overrides.<full name>.publisher.reliability` (`.durability`, `.depth`), `.subscription.` for what is
taken. That holds for `diagnostics`, `/parameter_events` (by which budgets are followed), `position_topic`,
`detections_topic` and `ground/rx/detections`, too. Those of `ground/rx/*` and `eve/rx/*` as published are given to
`link` and are not in its `ros2 param list`, since its half in the ground's domain has no services. A publisher and a
subscriber that do not fit are named, with topic and policy, in both logs and in `diagnostics`.

"""
PARAMETERS = """## Parameters

Doubles may be given as whole numbers; NaN, infinities and strings for booleans are refused by name. What is marked
*set* can be changed while the node is active; all else is read when the node is configured.

"""


def document() -> str:
    """Return the text of the page."""
    return HEAD + "".join([*_domains(), *_topics(), OVERRIDES, *_nodes(), PARAMETERS, *_parameters()]).rstrip() + "\n"


def _domains() -> Iterator[str]:
    yield _table(
        ("DDS domain", "discovery", "nodes"),
        [
            (domain, reach, ", ".join(f"`{spec.name}`" for spec in NODES.values() if spec.domain == domain))
            for domain, reach in DISCOVERY_RANGE.items()
        ],
    )
    yield "`link` alone has a context in both. With `isolate:=false` there is one domain.\n\n## Topics\n\n"


def _topics() -> Iterator[str]:
    rows = []
    for topic in TOPICS.values():
        giver = next(spec.name for spec in NODES.values() if topic.name in spec.gives)
        takers = ", ".join(f"`{spec.name}`" for spec in NODES.values() if topic.name in spec.takes)
        kept = "yes" if topic.recorded else ""
        rows.append((f"`{topic.name}`", f"`{topic.type}`", topic.domain, topic.qos, f"`{giver}`", takers, kept))
    yield _table(("topic", "type", "domain", "QoS", "from", "to", "recorded"), rows)
    yield "*Recorded* is what a flight recorder may keep: nothing from before protection.\n\n### Quality of service\n\n"
    yield _table(
        ("kind", "reliability", "durability", "depth"),
        [(kind, qos.reliability, qos.durability, str(qos.depth)) for kind, qos in QOS.items()],
    )


def _nodes() -> Iterator[str]:
    yield "## Nodes\n\n"
    yield _table(("node", "", "takes", "gives"), [_node(spec) for spec in NODES.values()])


def _node(spec: NodeSpec) -> tuple[str, str, str, str]:
    takes, gives = (", ".join(f"`{name}`" for name in names) for names in (spec.takes, spec.gives))
    return f"`{spec.name}`", spec.about, takes, gives


def _parameters() -> Iterator[str]:
    yield "### every node\n\n"
    yield _table(_COLUMNS, _rows(LifecycleParameters))
    for name, node in CLASSES.items():
        yield f"### {name}\n\n"
        yield _table(_COLUMNS, _rows(node.Config))


_COLUMNS = ("parameter", "type", "default", "allowed", "", "description")


def _rows(config: type[Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for item in fields(config):
        about = item.metadata["ros"]
        kind = {"str": "string", "tuple[float, ...]": "double array", "float": "double", "int": "integer"}
        change = "" if about.read_only else "set"
        rows.append(
            (f"`{item.name}`", kind.get(str(item.type), str(item.type)), _value(item.default), _allowed(about), change)
            + (about.description,)
        )
    return rows


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f"`{value!r}`".replace("'", '"')


def _allowed(about: Any) -> str:
    if about.choices:
        return ", ".join(f"`{choice}`" for choice in about.choices)
    if about.low is None:
        return ""
    return f"at least {about.low:g}" if about.high is None else f"{about.low:g} to {about.high:g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page where the command line says, or print it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m uav_privacy_sc.nodes.interfaces", description=ABOUT)
    parser.add_argument("page", nargs="?", type=Path, help="file to write; without it the page goes to standard output")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is not as the code is")
    given = parser.parse_args(arguments)
    if given.page is None:
        if given.check:
            parser.error("--check needs the page to check")
        sys.stdout.write(document())
        return 0
    try:
        if given.check:
            return 0 if given.page.read_text(encoding="utf-8") == document() else 1
        given.page.write_text(document(), encoding="utf-8")
    except OSError as error:
        parser.error(f"{given.page}: {error.strerror or error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
