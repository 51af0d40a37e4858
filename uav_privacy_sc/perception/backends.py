"""What runs a detector's network: torch for ``.pt``, ONNX Runtime for ``.onnx``, TensorRT for ``.engine``.

Each gives the head's raw predictions and the tapped features of one pass. A file exported elsewhere has no tap; ours,
from ``uav-privacy-sc train export``, has it as a second output and says in :data:`METADATA` where it was taken.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from uav_privacy_sc.perception.reach import measure_reach
from uav_privacy_sc.perception.tap import Tap
from uav_privacy_sc.perception.weights import WeightsError, checksum

#: Key of our metadata in an exported file, and names of its input and outputs.
METADATA = "uav_privacy_sc"
INPUT, OUTPUTS = "images", ("predictions", "tap")
EXPORT = "export it with `uav-privacy-sc train export --weights DIR --out detector.onnx`"


class Backend(Protocol):
    """A detection network with a tap.

    ``names`` are its classes, ``source_sha256`` the checksum of the ``.pt`` file that it comes from.
    """

    names: tuple[str, ...]
    source_sha256: str

    def reach(self, cell: int, pool: int) -> int:
        """Return how many cells of ``cell`` network pixels (``pool`` taps a side) around its own a cell's pixels
        change.

        Raises:
            WeightsError: it has no end, or an exported file does not tell it.
        """

    def __call__(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return predictions and tap ``(1, C, h / stride, w / stride)`` of a ``(1, 3, h, w)`` float32 batch."""


def load_yolo(path: Path) -> Any:
    """Return the detection network in an ultralytics ``.pt`` file, fused and in evaluation mode.

    Raises:
        WeightsError: if there is no such file, or it is no ultralytics network.
    """
    from ultralytics import YOLO

    if not path.is_file():  # ultralytics would look for it on the internet
        raise WeightsError(f"detector weights {path} are not there")
    try:
        model: Any = YOLO(str(path), task="detect").model
        model.names = {k: str(model.names[k]) for k in range(len(model.names))}
        return model.float().fuse(verbose=False).eval()
    except Exception as error:  # ultralytics raises many kinds, with advice on commands of its own
        why = f"it needs {error.name}" if isinstance(error, ModuleNotFoundError) else "truncated, or not ultralytics'"
        raise WeightsError(
            f"cannot read detector weights {path}: {why}; give a detection network that ultralytics saved (.pt)"
        ) from None


class TorchBackend:
    """An ultralytics ``.pt`` file; the tap is a hook on its layer."""

    def __init__(self, path: Path, device: torch.device, tap: Tap, half: bool = False) -> None:
        self.model = load_yolo(path)
        self.names = tuple(self.model.names.values())
        self.source_sha256 = checksum(path)
        layers = self.model.model
        if tap.layer >= len(layers):
            raise WeightsError(
                f"detector weights {path} have {len(layers)} layers, and the codec taps layer {tap.layer}"
            )
        self._dtype = torch.float16 if half else torch.float32
        self.model.to(device=device, dtype=self._dtype)
        self._tap: Any = None
        self._path, self._below = path, layers[: tap.layer + 1]
        self._hook = layers[tap.layer].register_forward_hook(self._keep)

    def reach(self, cell: int, pool: int) -> int:
        """As :meth:`Backend.reach`, measured on the network itself."""
        self._hook.remove()
        try:
            return measure_reach(self._below, cell, pool)
        except ValueError as error:
            raise WeightsError(f"detector weights {self._path}: {error}") from None
        finally:
            self._hook = self._below[-1].register_forward_hook(self._keep)

    def _keep(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        self._tap = output

    def __call__(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = self.model(batch.to(self._dtype))
        tap, self._tap = self._tap, None
        return (output[0] if isinstance(output, (tuple, list)) else output), tap


class OnnxBackend:
    """An ``.onnx`` file of ours, in ONNX Runtime on the CPU or the CUDA device asked for."""

    def __init__(self, path: Path, device: torch.device, tap: Tap, half: bool = False) -> None:
        _refuse_half(path, half)
        runtime = _runtime("onnxruntime", path)
        self._device, self.session = device, _session(runtime, path, device)
        found = self.session.get_modelmeta().custom_metadata_map.get(METADATA)
        self._about = read_metadata(path, found, tap)
        self.names, self.source_sha256, self.reach = self._about.names, self._about.source_sha256, self._about.reach
        missing = set(OUTPUTS) - {output.name for output in self.session.get_outputs()}
        if missing:
            raise WeightsError(f"detector weights {path} have no output {', '.join(sorted(missing))}; {EXPORT}")

    def __call__(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = self.session.run(list(OUTPUTS), {INPUT: batch.float().contiguous().cpu().numpy()})
        predictions, tap = (torch.from_numpy(output).to(self._device) for output in outputs)
        return predictions, tap


class TensorRtBackend:
    """An ``.engine`` file of ours in TensorRT. Written against TensorRT 10's interface and not run by our tests."""

    def __init__(self, path: Path, device: torch.device, tap: Tap, half: bool = False) -> None:
        _refuse_half(path, half)
        runtime = _runtime("tensorrt", path)
        if device.type != "cuda":
            raise ValueError(f"device={device} cannot run {path.name}; TensorRT needs cuda:N")
        metadata, plan = split_engine(path)
        self._about = read_metadata(path, metadata.get(METADATA), tap)
        self.names, self.source_sha256, self.reach = self._about.names, self._about.source_sha256, self._about.reach
        self._device, self._logger = device, runtime.Logger(runtime.Logger.WARNING)
        self._engine = runtime.Runtime(self._logger).deserialize_cuda_engine(plan)
        if self._engine is None:
            raise WeightsError(f"detector weights {path} are for another TensorRT or GPU; export them on this machine")
        self._context = self._engine.create_execution_context()

    def __call__(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        given = batch.float().contiguous()
        self._context.set_input_shape(INPUT, tuple(given.shape))
        self._context.set_tensor_address(INPUT, given.data_ptr())
        outputs = []
        for name in OUTPUTS:
            shape = tuple(self._context.get_tensor_shape(name))
            outputs.append(torch.empty(shape, dtype=torch.float32, device=self._device))
            self._context.set_tensor_address(name, outputs[-1].data_ptr())
        stream = torch.cuda.current_stream(self._device)
        if not self._context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("TensorRT did not run the detector")
        stream.synchronize()
        return outputs[0], outputs[1]


_BACKENDS: dict[str, Callable[[Path, torch.device, Tap, bool], Backend]] = {
    ".pt": TorchBackend,
    ".onnx": OnnxBackend,
    ".engine": TensorRtBackend,
}


def open_backend(path: Path, device: torch.device, tap: Tap, half: bool = False) -> Backend:
    """Return what runs a detector file, by its ending.

    Raises:
        WeightsError: the file is not there, of another kind, unreadable, without a tap, or its runtime is missing.
        ValueError: device or half precision that this runtime has not got.
    """
    if path.suffix not in _BACKENDS:
        raise WeightsError(f"detector weights {path} end in {path.suffix or 'nothing'}; give .pt, .onnx or .engine")
    if not path.is_file():
        raise WeightsError(f"detector weights {path} are not there")
    return _BACKENDS[path.suffix](path, device, tap, half)


@dataclass(frozen=True)
class Metadata:
    """What an exported file says of itself: classes, the ``.pt`` it comes from, and how far its tap reaches."""

    path: Path
    names: tuple[str, ...]
    source_sha256: str
    cell: int
    reach_cells: int

    def reach(self, cell: int, pool: int) -> int:
        """As :meth:`Backend.reach`, as it was measured at the export."""
        if cell != self.cell:
            raise WeightsError(f"detector weights {self.path} were exported for cells of {self.cell} pixels; {EXPORT}")
        return self.reach_cells


def read_metadata(path: Path, found: str | None, tap: Tap) -> Metadata:
    """Return what an exported file's metadata say; its tap must be the one asked for.

    Raises:
        WeightsError: no metadata of ours, or another tap.
    """
    if found is None:
        raise WeightsError(f"detector weights {path} have no tap for the encoder: exported elsewhere; {EXPORT}")
    try:
        values: Mapping[str, Any] = json.loads(found)
        names = tuple(str(name) for name in values["names"])
        layer, source = int(values["tap_layer"]), str(values["source_sha256"])
        cell, reach = int(values["cell"]), int(values["reach_cells"])
    except (ValueError, KeyError, TypeError) as error:
        raise WeightsError(
            f"detector weights {path} have metadata that do not read: {_line(error)}; {EXPORT}"
        ) from None
    if layer != tap.layer:
        raise WeightsError(f"detector weights {path} tap layer {layer}, the codec needs layer {tap.layer}; {EXPORT}")
    return Metadata(path, names, source, cell, reach)


def split_engine(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the metadata and the plan of an ``.engine`` file as ultralytics writes it: length, JSON, plan.

    Raises:
        WeightsError: there is no such header.
    """
    content = path.read_bytes()
    length = int.from_bytes(content[:4], "little")
    try:
        metadata = json.loads(content[4 : 4 + length].decode("utf-8"))
    except (ValueError, UnicodeDecodeError):
        metadata = None
    if not isinstance(metadata, dict):
        raise WeightsError(
            f"detector weights {path} have no metadata before the plan; {EXPORT.replace('.onnx', '.engine')}"
        )
    return metadata, content[4 + length :]


def _session(runtime: Any, path: Path, device: torch.device) -> Any:
    provider: Any = "CPUExecutionProvider"
    if device.type == "cuda":
        if "CUDAExecutionProvider" not in runtime.get_available_providers():
            raise ValueError(f"device={device} cannot run {path.name}: install onnxruntime-gpu, or set device to cpu")
        provider = ("CUDAExecutionProvider", {"device_id": device.index or 0})
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:  # a class of its own for each fault, from a module that may not be there
        raise WeightsError(f"cannot read detector weights {path}: {_line(error)}") from None
    wanted = provider if isinstance(provider, str) else provider[0]
    if session.get_providers()[0] != wanted:  # ONNX Runtime falls back to the CPU with a warning only
        raise ValueError(
            f"device={device} cannot run {path.name}: ONNX Runtime could not start CUDA; set device to cpu"
        )
    return session


def _runtime(package: str, path: Path) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise WeightsError(
            f"detector weights {path} need the package {package}; install it or give a .pt file"
        ) from None


def _refuse_half(path: Path, half: bool) -> None:
    if half:
        raise ValueError(f"half=True is for .pt weights; {path.name} has the precision that it was exported with")


def _line(error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return re.sub(r"^ERROR\W+", "", first)[:160]
