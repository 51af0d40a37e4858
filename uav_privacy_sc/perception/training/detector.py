"""Train a detector on annotated pictures, from scratch or from weights that are there.

Ultralytics gives network and loss; the loop is ours because random crops at the scale of inference, taken from
pictures kept in memory in channels-last layout, train about twice as fast on two CPU cores as its trainer's mosaics.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from uav_privacy_sc import scene
from uav_privacy_sc.perception.image import LONG_SIDE
from uav_privacy_sc.perception.training.architecture import ARCHITECTURES, matched_to, new_network
from uav_privacy_sc.perception.training.checkpoint import Checkpoint
from uav_privacy_sc.perception.training.muon import Muon
from uav_privacy_sc.perception.training.samples import Samples
from uav_privacy_sc.perception.weights import WeightsError, checksum, save_whole


@dataclass(frozen=True)
class DetectorTraining:
    """How a detector is trained. ``crop`` is in pixels at the network's scale; ``zoom`` a log-uniform range.

    ``architecture`` is of :data:`~uav_privacy_sc.perception.training.architecture.ARCHITECTURES`.
    ``balance`` is the share of crops that hold an object of a class drawn evenly, however rare it is; the others are
    taken anywhere. The first ``freeze`` layers stay as they are, so a codec that taps one of them still fits.
    ``bfloat16`` runs the layers, not the loss, in that precision: nearly twice as fast on CPUs that have it.
    Filters are trained by :class:`~uav_privacy_sc.perception.training.muon.Muon` at ``learning_rate``, biases and norms
    by AdamW at ``vector_rate`` times that.
    """

    architecture: str = "yolo11n-p2"
    steps: int = 4500
    batch: int = 16
    crop: int = 352
    zoom: tuple[float, float] = (0.7, 1.5)
    balance: float = 0.5
    learning_rate: float = 0.02
    vector_rate: float = 0.1
    warmup_steps: int = 150
    average_decay: float = 0.998
    checkpoint_every: int = 100
    seed: int = 1
    freeze: int = 0
    bfloat16: bool = False

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.checkpoint_every) < 1:
            raise ValueError(f"steps={self.steps}, batch={self.batch} and checkpoint_every must be at least 1")
        if self.crop % 32 or self.crop < 64:
            raise ValueError(f"crop={self.crop} must be a multiple of 32 from 64 on")
        if not 0 <= self.balance <= 1:
            raise ValueError(f"balance={self.balance} must be from 0 to 1: the share of crops around a drawn class")
        if self.architecture not in ARCHITECTURES:
            raise ValueError(f"architecture={self.architecture!r} is not known; give one of {', '.join(ARCHITECTURES)}")
        if self.freeze < 0:
            raise ValueError(f"freeze={self.freeze} must be from 0 on: how many first layers stay as they are")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate={self.learning_rate} must be between 0 and 1, both excluded")
        if not 0 < self.vector_rate <= 1:
            raise ValueError(f"vector_rate={self.vector_rate} must be above 0 and at most 1")


def start_from(model: Any, weights: Path, freeze: int = 0) -> int:
    """Copy what fits of ultralytics weights into ``model`` and return the share of it in per cent.

    Weights with other classes (COCO's) lend all but the layers that name classes. The first ``freeze`` layers have to
    fit as a whole.

    Raises:
        WeightsError: if the file is unreadable, or less than half of the network fits, or not all that is frozen.
    """
    from ultralytics import YOLO

    if not weights.is_file():
        raise WeightsError(f"init {weights} is no file; give ultralytics weights (.pt)")
    try:
        network: Any = YOLO(str(weights), task="detect").model.float()
    except Exception:  # ultralytics raises many kinds, with advice on commands of its own
        raise WeightsError(
            f"cannot read init {weights}: truncated, or no ultralytics detector weights; give a YOLO11n's (.pt)"
        ) from None
    own, given = model.state_dict(), matched_to(model, network)
    fitting = {name: value for name, value in given.items() if name in own and value.shape == own[name].shape}
    share = 100 * sum(map(torch.numel, fitting.values())) // sum(map(torch.numel, own.values()))
    if share < 50:
        raise WeightsError(f"init {weights} is of another architecture: {share} % of it fits; use a YOLO11n's")
    lacking = min((int(name.split(".")[1]) for name in own.keys() - fitting.keys()), default=len(model.model))
    if lacking < freeze:
        raise WeightsError(f"init {weights} has not all of layer {lacking}: freeze={freeze} must be {lacking} at most")
    model.load_state_dict(fitting, strict=False)
    return share


def crop_sample(
    image: np.ndarray,
    objects: np.ndarray,
    config: DetectorTraining,
    rng: np.random.Generator,
    around: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a random crop ``(crop, crop, 3)`` and its ``(K, 5)`` rows ``class x y w h``, normalized to the crop.

    Zoomed, shifted, mirrored; an object stays when at least 30 % of it is inside. ``around`` is a point ``(2,)``,
    normalized to the picture, that the crop shall hold.
    """
    height, width = image.shape[:2]
    side = config.crop
    zoom = math.exp(rng.uniform(*np.log(config.zoom)))
    slack = np.array([width, height]) * zoom - side
    least, most = np.minimum(0, slack), np.maximum(0, slack)
    if around is not None:
        point = np.clip(around, 0, 1) * [width, height] * zoom
        least, most = np.maximum(least, point - side), np.minimum(most, point)
    shift = rng.uniform(least, most)
    flip = -1.0 if rng.random() < 0.5 else 1.0
    matrix = np.array([[flip * zoom, 0, -flip * shift[0] + (side if flip < 0 else 0)], [0, zoom, -shift[1]]])
    warped = cv2.warpAffine(image, matrix, (side, side), flags=cv2.INTER_LINEAR, borderValue=(114, 114, 114))
    boxes = scene.corners(objects) * np.tile([width, height], 2) * zoom - np.tile(shift, 2)
    if flip < 0:
        boxes[:, [0, 2]] = side - boxes[:, [2, 0]]
    clipped = boxes.clip(0, side)
    size, inside = boxes[:, 2:] - boxes[:, :2], clipped[:, 2:] - clipped[:, :2]
    keep = (inside.prod(axis=1) > 0.3 * size.prod(axis=1)) & (inside.min(axis=1, initial=side) > 2)
    middle = (clipped[:, :2] + clipped[:, 2:]) / 2
    rows = np.concatenate([objects["label"][:, None], middle / side, inside / side], axis=1)[keep]
    return _jitter(warped, rng), rows


def _jitter(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Change brightness, contrast and colour a little."""
    gain = rng.uniform(0.75, 1.25) * rng.uniform(0.92, 1.08, 3)
    offset = rng.uniform(-20, 20)
    table = np.clip(np.arange(256)[:, None] * gain + offset, 0, 255).astype(np.uint8)
    return cv2.LUT(image, np.ascontiguousarray(table.reshape(1, 256, 3)))


class CropPlaces:
    """Draws where crops are taken: anywhere in any picture, or around an object of a class that is drawn evenly.

    On streets cars outnumber buses fourteen to one; drawn by picture alone, a network hears too little of the rare.
    """

    def __init__(self, objects: list[np.ndarray], balance: float) -> None:
        self.balance, self._pictures = balance, len(objects)
        labels = [np.unique(records["label"]) for records in objects]
        present = np.unique(np.concatenate(labels)) if labels else np.zeros(0, int)
        self._by_class = {int(c): np.flatnonzero([c in known for known in labels]) for c in present}
        self._objects = objects

    def draw(self, rng: np.random.Generator) -> tuple[int, np.ndarray | None]:
        """Return a picture's index and the normalized point ``(2,)`` that its crop shall hold, if any."""
        if not self._by_class or rng.random() >= self.balance:
            return int(rng.integers(self._pictures)), None
        label = list(self._by_class)[rng.integers(len(self._by_class))]
        picture = int(rng.choice(self._by_class[label]))
        chosen = rng.choice(np.flatnonzero(self._objects[picture]["label"] == label))
        box = self._objects[picture][chosen]
        return picture, np.array([box["x"], box["y"]])


def _batch(
    samples: Samples, places: CropPlaces, config: DetectorTraining, rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    drawn = [places.draw(rng) for _ in range(config.batch)]
    crops = [crop_sample(samples.images[k], samples.objects[k], config, rng, around) for k, around in drawn]
    rows = np.concatenate([np.column_stack([np.full(len(r), k), r]) for k, (_, r) in enumerate(crops)])
    images = torch.from_numpy(np.stack([c for c, _ in crops])).permute(0, 3, 1, 2).float().div_(255)
    table = torch.from_numpy(rows).float()
    return {
        "img": images.contiguous(memory_format=torch.channels_last),
        "batch_idx": table[:, 0],
        "cls": table[:, 1:2],
        "bboxes": table[:, 2:],
    }


def _rate(step: int, config: DetectorTraining) -> float:
    warm = min(1.0, (step + 1) / config.warmup_steps)
    return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / config.steps)))


class DetectorTrainer:
    """Trains step by step, keeps a running average of the weights, and resumes from its checkpoint.

    ``init`` are ultralytics weights to start from instead of random ones.
    """

    PART, LOSSES = "detector", ("box", "class", "distribution")

    def __init__(self, samples: Samples, out: Path, config: DetectorTraining, init: Path | None = None) -> None:
        torch.manual_seed(config.seed)
        self.samples, self.out, self.config = samples, out, config
        self.places = CropPlaces(samples.objects, config.balance)
        self.model = new_network(config.architecture)
        if config.freeze >= len(self.model.model):
            last = len(self.model.model) - 1
            raise ValueError(f"freeze={config.freeze} must be from 0 to {last}: layer {last} is the head")
        if config.freeze and init is None:
            raise ValueError(f"freeze={config.freeze} needs init: what is frozen must have been trained; give --init")
        self.init_share = 0 if init is None else start_from(self.model, init, config.freeze)
        self.model = self.model.to(memory_format=torch.channels_last)
        self._frozen = self.model.model[: config.freeze].requires_grad_(False)
        self.average = copy.deepcopy(self.model).eval()
        filters = [p for p in self.model.parameters() if p.ndim > 1]
        vectors = [p for p in self.model.parameters() if p.ndim <= 1]
        self.model.criterion = self.model.init_criterion()
        self.model.criterion.assigner = PictureByPicture(self.model.criterion.assigner)
        self.optimizers = {
            "muon": Muon(filters, lr=config.learning_rate),
            "adamw": torch.optim.AdamW(vectors, lr=config.learning_rate * config.vector_rate, weight_decay=0.0),
        }
        parts = {"model": self.model, "average": self.average, **self.optimizers}
        self.made_of = {
            "settings": {**asdict(config), "optimizer": "muon"},
            "data": samples.fingerprint(),
            "init": "" if init is None else checksum(init),
        }
        path = out / "detector.pt"
        self.checkpoint = Checkpoint(
            out,
            self.PART,
            parts,
            self.made_of,
            self.LOSSES,
            path,
            lambda: save_yolo(self.average, path, asdict(config)),
            earlier={"architecture": "yolo11n", "bfloat16": False},
        )
        self.step, self.losses = self.checkpoint.load()

    def save(self) -> None:
        """Write ``detector.pt`` (averaged weights, as ultralytics reads them) and the checkpoint (whole state)."""
        self.checkpoint.save(self.step, self.losses)

    def settle(self) -> None:
        """Bring weights and checkpoint together where an interruption came between them (:meth:`Checkpoint.settle`)."""
        self.step, self.losses = self.checkpoint.settle(self.step, self.losses)

    def run(self, progress: Callable[[int, list[float]], None]) -> None:
        """Train to the last step; ``progress`` is told the step and the losses (box, class, distribution)."""
        self.model.train()
        self._frozen.eval()  # their running means stay, too
        while self.step < self.config.steps:
            rng = np.random.default_rng([self.config.seed, self.step])
            for optimizer in self.optimizers.values():
                for group in optimizer.param_groups:
                    group["lr"] = optimizer.defaults["lr"] * _rate(self.step, self.config)
            loss, parts = self._loss(_batch(self.samples, self.places, self.config, rng))
            self.model.zero_grad()
            loss.sum().backward()
            if not torch.isfinite(torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)):
                raise FloatingPointError(
                    f"the {self.PART} training's gradient is not finite after {self.step} steps; what was saved stays; "
                    "begin anew with --fresh and a lower --learning-rate"
                )
            for optimizer in self.optimizers.values():
                optimizer.step()
            self._follow()
            self.step += 1
            self.losses.append([round(float(v), 4) for v in (parts.values() if isinstance(parts, dict) else parts)])
            progress(self.step, self.losses[-1])
            if self.step % self.config.checkpoint_every == 0 or self.step == self.config.steps:
                self.save()
        self.settle()

    def _loss(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """Return the ``(3,)`` losses that are to be minimized, and the same for people to read."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.bfloat16):
            predictions = self.model(batch["img"])
        # Places of boxes need more than bfloat16's eight bits.
        loss: tuple[torch.Tensor, Any] = self.model.loss(batch, _in_float32(predictions))
        return loss

    @torch.no_grad()
    def _follow(self) -> None:
        decay = self.config.average_decay * (1 - math.exp(-self.step / 200))
        live = self.model.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(live[name], 1 - decay)
            else:
                value.copy_(live[name])


class PictureByPicture(torch.nn.Module):
    """Assigns cells to objects as ``assigner`` does, one picture at a time.

    Ultralytics pads every picture's objects to the fullest one's number and holds each against every cell; with cells
    of 4 pixels that takes as long as the network. What comes out is the same but for rounding, and for the labels of
    pictures without objects, which the loss does not use.
    """

    def __init__(self, assigner: torch.nn.Module) -> None:
        super().__init__()
        self.assigner = assigner

    def forward(
        self,
        scores: torch.Tensor,
        boxes: torch.Tensor,
        cells: torch.Tensor,
        labels: torch.Tensor,
        objects: torch.Tensor,
        present: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        parts = []
        for k, count in enumerate(present.sum(dim=(1, 2)).int().tolist()):
            one, own = slice(k, k + 1), (slice(k, k + 1), slice(count))  # objects come first, padding after them
            parts.append(self.assigner(scores[one], boxes[one], cells, labels[own], objects[own], present[own]))
        return tuple(map(torch.cat, zip(*parts, strict=True)))


def _in_float32(value: Any) -> Any:
    """Return tensors in float32, in the dictionaries and sequences they came in."""
    if isinstance(value, torch.Tensor):
        return value.float()
    if isinstance(value, dict):
        return {name: _in_float32(part) for name, part in value.items()}
    return type(value)(map(_in_float32, value))


def save_yolo(model: Any, path: Path, settings: dict[str, Any]) -> None:
    """Write a network as an ultralytics checkpoint in half precision, which ``ultralytics.YOLO(path)`` opens."""
    bare = copy.deepcopy(model).half().eval()
    bare.criterion = None
    for parameter in bare.parameters():
        parameter.requires_grad = False
    name = f"{settings.get('architecture', 'yolo11n')}.yaml"
    arguments = {"task": "detect", "imgsz": LONG_SIDE, "data": None, "single_cls": False, "model": name}
    save_whole(path, {"model": bare, "train_args": arguments, "settings": settings})
