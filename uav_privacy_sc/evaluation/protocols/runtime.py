"""Time and memory of the modules that P1 times (5.11, Table 4), and of every stage that flies, on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from uav_privacy_sc.bench.measure import Meter
from uav_privacy_sc.bench.privacy import CHANNELS, EPSILON_L, EPSILON_V, GRID, GRID_SIZE, OBJECTS, some_objects
from uav_privacy_sc.control.bcd import optimize_at_db
from uav_privacy_sc.control.policy import load_policies
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Measurement, Results, measured
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import ResultTable, plain, reasons
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.link.channel import LinkConfig
from uav_privacy_sc.pipeline import LinkStage
from uav_privacy_sc.privacy import location, visual
from uav_privacy_sc.privacy.randomness import RandomStreams

NAME = "runtime"
GAIN_DB = 12.0
PICTURE = (540, 960)
FRAME, PLACES, SOLVE = "region-aware DP, one frame", "coordinate DP, one frame", "BCD, one solve"
ITERATION = "BCD, one iteration"
#: Those whose memory is measured, too.
PEAKS = (FRAME, PLACES, SOLVE)


def units(setting: Setting, store: SampleStore | None) -> Iterator[Unit]:
    """Yield one unit a module, so that an interrupted run need not take a time again."""
    for name in (FRAME, PLACES, SOLVE, "perception", "link", "ground decoder", "inverter"):
        yield Unit(name, partial(measure, name, setting))


def measure(module: str, setting: Setting) -> list[Measurement]:
    """Return median time, its ratio to a base where it has one, and peak memory of a module."""
    try:
        call, base = _calls(setting)[module]()
    except (OSError, ValueError) as error:  # weights that are not there: the other modules are timed all the same
        why = Missing(" ".join(str(error).split()))
        return [measured(why, protocol=NAME, mechanism=module, metric="time_ms", sample="machine", seed=0)]
    meter = Meter(setting.preset.repeats, warmup=3)
    about = {"protocol": NAME, "mechanism": module, "sample": "machine", "seed": 0}
    timing = meter.compare(call, base or _draw)
    found = [measured(timing.seconds * 1e3, metric="time_ms", **about)]
    name = "ratio to the bare draw of its noise" if base else "ratio to a 16x22x40 Gaussian draw"
    found.append(measured(timing.slowdown, metric="ratio", condition=name, **about))
    if module in PEAKS:
        found.append(measured(meter.peak_bytes(call) / 1e3, metric="memory_kb", **about))
    if module == SOLVE:
        policy = load_policies()["surveillance"]
        steps = len(optimize_at_db(policy, GAIN_DB).history)
        row = {**about, "mechanism": ITERATION}
        found.append(measured(timing.seconds * 1e3 / max(steps, 1), metric="time_ms", **row))
    return found


_RNG = np.random.default_rng(0)


def _draw() -> np.ndarray:
    return _RNG.standard_normal((16, 22, 40), np.float32)


Pair = tuple[Callable[[], object], Callable[[], object] | None]


def _calls(setting: Setting) -> dict[str, Callable[[], Pair]]:
    return {
        FRAME: _region_aware,
        PLACES: _places,
        SOLVE: lambda: (partial(optimize_at_db, load_policies()["surveillance"], GAIN_DB), None),
        "perception": lambda: (partial(networks_for(setting.networks).perception, _picture()), None),
        "link": _link,
        "ground decoder": lambda: (
            partial(networks_for(setting.networks).decoder, _draw(), some_objects(50, _RNG)),
            None,
        ),
        "inverter": lambda: (partial(networks_for(setting.networks).inverters["inverter"], _draw()), None),
    }


def _picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*PICTURE, 3), np.uint8)


def _region_aware() -> Pair:
    rng, streams = np.random.default_rng(0), RandomStreams()
    features, objects = rng.standard_normal((CHANNELS, *GRID), np.float32), some_objects(OBJECTS, rng)
    config = visual.VisualConfig(channels=CHANNELS)

    def call() -> np.ndarray:
        epsilon = visual.allocate(objects, GRID, EPSILON_V, config)
        return visual.release(features, epsilon, config, streams.visual)

    return call, lambda: streams.visual.standard_normal(features.shape, np.float32)


def _places() -> Pair:
    centers, rng = np.random.default_rng(0).random((OBJECTS, 2)), RandomStreams().location
    draw = (OBJECTS, 2, GRID_SIZE)
    return lambda: location.release_grid(centers, EPSILON_L, GRID_SIZE, rng), lambda: rng.standard_exponential(draw)


def _link() -> Pair:
    rng = np.random.default_rng(0)
    stage, features, objects = LinkStage(LinkConfig(), rng, rng), _draw(), some_objects(50, rng)
    return lambda: stage(features, objects, 1.0), lambda: (_draw(), _draw())


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return times, ratios and memory beside P1's."""
    rows, missing = [], []
    for module in results.distinct("mechanism"):
        time_ms, memory = _only(results, "time_ms", module), _only(results, "memory_kb", module)
        missing += [(module, time_ms)] if isinstance(time_ms, Missing) else []
        missing += [(f"memory of {module}", memory)] if isinstance(memory, Missing) and module in PEAKS else []
        base = next(iter(results.distinct("condition", metric="ratio", mechanism=module)), "")
        ratio = next(iter(results.values("ratio", module, condition=base).values()), None) if base else None
        theirs = [published.find("Table 4", metric, module) for metric in ("time_ms", "memory_kb")]
        rows.append(
            (
                module,
                _plain(time_ms, 3),
                published.text(theirs[0], 2),
                plain(ratio, 2),
                base.removeprefix("ratio to "),
                _plain(memory, 1),
                published.text(theirs[1], 1),
            )
        )
    heads = ("module", "median (ms)", "P1 (ms)", "ratio", "to", "peak memory (KB)", "P1 (KB)")
    notes = (
        f"CPU time on one core, medians over {setting.preset.repeats} samples that took turns with the base; "
        f"{CHANNELS}x{GRID[0]}x{GRID[1]} features and {OBJECTS} objects for the mechanisms. P1 does not say which size "
        "it timed; ratios are comparable between machines, milliseconds are not.",
        *reasons(missing),
    )
    return [ResultTable("runtime", "Time and memory (P1 Table 4)", heads, rows, notes)]


def _only(results: Results, metric: str, module: str) -> float | Missing:
    """Return the one value of a module, or why there is none."""
    return next(iter(results.values(metric, module).values()), Missing(results.reason(metric, module)))


def _plain(found: float | Missing, digits: int) -> str:
    return plain(None if isinstance(found, Missing) else found, digits)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return times of all modules beside P1's."""
    modules = [name for name in results.distinct("mechanism") if results.values("time_ms", name)]
    ours = [next(iter(results.values("time_ms", module).values())) for module in modules]
    theirs = [published.find("Table 4", "time_ms", module) for module in modules]
    given = [(place, item.value) for place, item in enumerate(theirs) if item is not None]
    series = [
        Series("ours", list(range(len(modules))), ours),
        Series("P1", [place for place, _ in given], [value for _, value in given], published=True),
    ]
    ticks = [
        module.replace(", one ", "\n").replace("-aware DP", "-\naware DP").replace(" ", "\n", 1) for module in modules
    ]
    panel = Panel("", "", "median CPU time (ms)", series, "bars", ticks, log_y=True)
    return [Figure("runtime", "Time of each module on one core (P1 Table 4)", [panel], columns=1, stretch=1.7)]


PROTOCOL = Protocol(NAME, "time and memory on one core (P1 Table 4)", "nothing", units, tables, figures, serial=True)
