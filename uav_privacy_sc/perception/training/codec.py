"""Train the codec under the very noise it will meet.

The encoder learns from the decoder's mask and, with a small weight, from the picture that an inverter of its own makes
of the code: a general code, as P1's tensor is, not one that hides appearance by training. The eavesdropper's inverter
proper is trained on the finished codec (:mod:`uav_privacy_sc.perception.training.attacker`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.nn import functional

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inversion import PICTURE_STRIDE, Inverter
from uav_privacy_sc.perception.codec import CODE_CHANNELS, Codec
from uav_privacy_sc.perception.tap import YOLO11N, Tap
from uav_privacy_sc.perception.training.batches import ProtectedTraining, TapSet, batches, send, step_noise
from uav_privacy_sc.perception.training.checkpoint import Checkpoint
from uav_privacy_sc.perception.training.samples import UNKNOWN, DatasetError
from uav_privacy_sc.perception.weights import save_module


@dataclass(frozen=True)
class CodecTraining(ProtectedTraining):
    """How the codec is trained.

    ``channels`` is C; ``pool`` taps a side make one cell; ``object_weight`` is the weight of object pixels,
    ``picture_weight`` that of the inverted picture.
    """

    picture_weight: float = 0.5
    object_weight: float = 2.0
    channels: int = CODE_CHANNELS
    pool: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("channels", "pool"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


def mask_loss(scores: torch.Tensor, mask: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted cross entropy over the pixels whose class is known; zero where none is."""
    total = functional.cross_entropy(scores, mask, weights, ignore_index=UNKNOWN, reduction="sum")
    known = mask[mask != UNKNOWN]
    return total / weights[known].sum().clamp_min(1.0)


class CodecTrainer:
    """Trains the codec, keeps the losses, and resumes from its checkpoint."""

    PART, LOSSES = "codec", ("mask", "picture")

    def __init__(
        self, data: TapSet, out: Path, config: CodecTraining, tap: Tap = YOLO11N, reach_cells: int = 2
    ) -> None:
        if (data.masks == UNKNOWN).all():
            raise DatasetError("the codec is trained on masks, and no pixel of these pictures has a known class")
        torch.manual_seed(config.seed)
        self.data, self.out, self.config = data, out, config
        self.codec = Codec(config.channels, tap.layer, tap.channels, tap.stride, config.pool, reach_cells)
        self.inverter = Inverter(config.channels, tap.stride * config.pool // PICTURE_STRIDE)
        parameters = [*self.codec.parameters(), *self.inverter.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=1e-3)
        weights = torch.ones(len(scene.MASK_CLASSES))
        weights[: len(scene.OBJECT_CLASSES)] = config.object_weight
        self._class_weights = weights
        place = {"tap_layer": tap.layer, "tap_channels": tap.channels, "tap_stride": tap.stride, "reach": reach_cells}
        self.made_of = {"settings": asdict(config), "data": data.data, "detector": data.detector, **place}
        parts = {"codec": self.codec, "inverter": self.inverter, "optimizer": self.optimizer}
        path = out / "codec.pt"
        self.checkpoint = Checkpoint(
            out,
            self.PART,
            parts,
            self.made_of,
            self.LOSSES,
            path,
            lambda: save_module(path, self.codec, self.codec.settings),
        )
        self.step, self.losses = self.checkpoint.load()

    def save(self) -> None:
        """Write ``codec.pt``, the checkpoint and the losses."""
        self.checkpoint.save(self.step, self.losses)

    def settle(self) -> None:
        """Bring weights and checkpoint together where an interruption came between them (:meth:`Checkpoint.settle`)."""
        self.step, self.losses = self.checkpoint.settle(self.step, self.losses)

    def run(self, progress: Callable[[int, list[float]], None]) -> None:
        """Train to the last step; ``progress`` is told the step and the losses (mask, picture)."""
        for batch in batches(self.data, self.config, self.step, self.config.pool):
            for group in self.optimizer.param_groups:
                group["lr"] = self.config.rate(self.step)
            noise = step_noise(self.config, self.step)
            code = self.codec.encoder(batch.tap)
            received = send(code, batch.sigma, batch.snr_db, noise) * batch.features
            painted = mask_loss(self.codec.decoder(received, batch.prior), batch.mask, self._class_weights)
            clear = send(code, torch.zeros_like(batch.sigma), batch.snr_db, noise)
            inverted = functional.l1_loss(self.inverter(clear), batch.picture)
            self.optimizer.zero_grad()
            (painted + self.config.picture_weight * inverted).backward()
            torch.nn.utils.clip_grad_norm_(self.codec.parameters(), 5.0)
            self.optimizer.step()
            self.step += 1
            self.losses.append([round(painted.item(), 4), round(inverted.item(), 4)])
            progress(self.step, self.losses[-1])
            if self.step % self.config.checkpoint_every == 0 or self.step == self.config.steps:
                self.save()
        self.settle()
