"""Write a detector as ``.onnx`` or ``.engine`` with its tap as a second output, which ultralytics' export leaves out.

The file says in its metadata which classes it knows, which layer is tapped, and the checksum of the ``.pt`` file that
it comes from, so that the record of a flight leads back to it.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from uav_privacy_sc.perception.backends import INPUT, METADATA, OUTPUTS, TorchBackend
from uav_privacy_sc.perception.codec import Codec
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.image import LONG_SIDE
from uav_privacy_sc.perception.tap import Tap, tap_of
from uav_privacy_sc.perception.weights import WeightsError, load_module, locate_sound

#: ONNX operator set: the last one whose every operator ONNX Runtime has on CUDA, too.
OPSET = 17
ENDINGS = (".onnx", ".engine")


class _Tapped(torch.nn.Module):
    """The network as a function of its input with both outputs, as a tracer needs it."""

    def __init__(self, backend: TorchBackend) -> None:
        super().__init__()
        self.backend, self.model = backend, backend.model

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.backend(images)


def export_detector(weights: Path | str | None, out: Path, detector: Path | None = None) -> Path:
    """Write the detector of a folder (the shipped one if None), or the file ``detector``, to ``out``.

    The height and width of the input stay free, in multiples of 32; batches are of one picture.

    Raises:
        WeightsError: the weights cannot be used, the ending is neither ``.onnx`` nor ``.engine``, or a package is
            missing.
    """
    if out.suffix not in ENDINGS:
        raise WeightsError(f"out is {out}; end it in .onnx or .engine")
    _require("onnx", out)
    if out.suffix == ".engine":
        _require("tensorrt", out)
    codec = load_module(locate_sound("codec.pt", weights), Codec)
    tap = tap_of(codec)
    source = Detector(detector or locate_sound("detector.pt", weights), tap=tap)
    if not isinstance(source.backend, TorchBackend):
        raise WeightsError(f"detector weights {detector} are exported already; give a .pt file")
    cell = codec.settings["stride"] * codec.settings["pool"]
    metadata = _metadata(source, tap, cell, source.backend.reach(cell, codec.settings["pool"]))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        made = Path(folder) / "detector.onnx"
        _write_onnx(source.backend, made, metadata)
        if out.suffix == ".engine":
            made = _write_engine(made, metadata)
        os.replace(made, out)
    return out


def _metadata(source: Detector, tap: Tap, cell: int, reach_cells: int) -> str:
    values = {"names": source.backend.names, "tap_layer": tap.layer, "source_sha256": source.source_sha256}
    return json.dumps({**values, "cell": cell, "reach_cells": reach_cells})


def _write_onnx(backend: TorchBackend, path: Path, metadata: str) -> None:
    import onnx

    head = backend.model.model[-1]
    head.export, head.dynamic, head.format = True, True, "onnx"
    sides = {2: "height", 3: "width"}
    torch.onnx.export(
        _Tapped(backend).eval(),
        torch.zeros(1, 3, 64, 96),
        str(path),
        opset_version=OPSET,
        input_names=[INPUT],
        output_names=list(OUTPUTS),
        dynamic_axes={INPUT: sides, OUTPUTS[0]: {2: "anchors"}, OUTPUTS[1]: {2: "rows", 3: "columns"}},
        dynamo=False,
    )
    model = onnx.load(str(path))
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, metadata
    onnx.save(model, str(path))


def _write_engine(onnx_path: Path, metadata: str) -> Path:
    """Build with ultralytics' own builder, which puts the metadata before the plan. Not run by our tests."""
    from ultralytics.utils.export.engine import onnx2engine

    made = onnx_path.with_suffix(".engine")
    shape = (1, 3, LONG_SIDE, LONG_SIDE)
    onnx2engine(str(onnx_path), str(made), dynamic=True, shape=shape, metadata={METADATA: metadata})
    return made


def _require(package: str, out: Path) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise WeightsError(f"writing {out.name} needs the package {package}; install it") from None


def export(
    weights: Annotated[Path | None, typer.Option(help="Folder with detector.pt and codec.pt.")] = None,
    out: Annotated[Path, typer.Option(help="File to write, .onnx or .engine.")] = Path("detector.onnx"),
    detector: Annotated[Path | None, typer.Option(help="Another .pt file than the folder's.")] = None,
) -> None:
    """Write the detector as .onnx or .engine with the tap that the encoder needs."""
    typer.echo(f"wrote {export_detector(weights, out, detector)}")
