"""Train the eavesdropper's inverter on a finished codec: P1's on unprotected codes, the adaptive one on protected ones.

P1's attacker (section 2.5) is "trained on 450 images", on features as they leave the encoder. The adaptive attacker
knows what Kerckhoffs grants it: mechanism, range of budgets, the rule of the budget map; it is trained on codes
protected exactly as in the codec's training, and learns to denoise. Both hear them over a link of -10 to 20 dB, or
(one time in seven) a perfect one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torchmetrics.functional.image import structural_similarity_index_measure

from uav_privacy_sc.attack.inversion import Inverter
from uav_privacy_sc.perception.codec import Codec
from uav_privacy_sc.perception.training.batches import ProtectedTraining, TapSet, batches, send, step_noise
from uav_privacy_sc.perception.training.checkpoint import Checkpoint, digest
from uav_privacy_sc.perception.weights import save_module

#: What the attacker's codes are protected with, and the file that its weights go to.
FILES = {"none": "inverter.pt", "adaptive": "inverter-adaptive.pt"}


@dataclass(frozen=True)
class AttackerTraining(ProtectedTraining):
    """How the inverter is trained.

    ``noise`` is ``none`` (unprotected codes) or ``adaptive`` (protected as in the codec's training); ``pictures`` the
    number it is trained on, taken evenly from the folder, all if None; ``similarity_weight`` that of 1 - SSIM beside
    the mean absolute error: an attacker is trained for what it is judged by.
    """

    noise: str = "none"
    pictures: int | None = None
    similarity_weight: float = 0.3
    seed: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in FILES:
            raise ValueError(f"noise={self.noise!r} is unknown; use {' or '.join(FILES)}")
        if self.pictures is not None and self.pictures < 1:
            raise ValueError(f"pictures={self.pictures} must be at least 1")

    @property
    def unprotected(self) -> float:
        """All codes for ``none``, the codec's share for ``adaptive``."""
        return 1.0 if self.noise == "none" else self.without_noise


def picture_loss(seen: torch.Tensor, picture: torch.Tensor, similarity_weight: float) -> torch.Tensor:
    """Return the mean absolute error and, weighted, 1 - SSIM of pictures ``(N, 3, h, w)`` in [0, 1]."""
    loss = functional.l1_loss(seen, picture)
    if not similarity_weight:
        return loss
    likeness = structural_similarity_index_measure(seen, picture, data_range=1.0)
    assert isinstance(likeness, torch.Tensor)
    return loss + similarity_weight * (1 - likeness)


@torch.inference_mode()
def encode(data: TapSet, codec: Codec) -> TapSet:
    """Return the data with the codes ``(N, C, H', W')`` float16 in place of the taps."""
    codes = [codec.encoder(torch.from_numpy(tap[None]).float())[0].numpy().astype(np.float16) for tap in data.taps]
    return replace(data, taps=np.stack(codes))


class AttackerTrainer:
    """Trains an inverter on a frozen codec, keeps the losses, and resumes from its checkpoint."""

    LOSSES = ("picture",)

    def __init__(self, data: TapSet, codec: Codec, out: Path, config: AttackerTraining) -> None:
        torch.manual_seed(config.seed)
        chosen = data if config.pictures is None else data.first(config.pictures)
        self.data, self.out, self.config = encode(chosen, codec.eval()), out, config
        self.PART = Path(FILES[config.noise]).stem
        self._shape = {
            "channels": self.data.taps.shape[1],
            "scale": self.data.pictures.shape[1] // self.data.taps.shape[2],
        }
        self.inverter = Inverter(**self._shape)
        self.optimizer = torch.optim.AdamW(self.inverter.parameters(), lr=config.learning_rate, weight_decay=1e-3)
        self.made_of = {
            "settings": asdict(config),
            "data": data.data,
            "detector": data.detector,
            "codec": digest(codec),
        }
        parts = {"inverter": self.inverter, "optimizer": self.optimizer}
        path = out / FILES[config.noise]
        self.checkpoint = Checkpoint(
            out,
            self.PART,
            parts,
            self.made_of,
            self.LOSSES,
            path,
            lambda: save_module(path, self.inverter, self._shape),
        )
        self.step, self.losses = self.checkpoint.load()

    def save(self) -> None:
        """Write the weights (``inverter.pt`` or ``inverter-adaptive.pt``), the checkpoint and the losses."""
        self.checkpoint.save(self.step, self.losses)

    def settle(self) -> None:
        """Bring weights and checkpoint together where an interruption came between them (:meth:`Checkpoint.settle`)."""
        self.step, self.losses = self.checkpoint.settle(self.step, self.losses)

    def run(self, progress: Callable[[int, list[float]], None]) -> None:
        """Train to the last step; ``progress`` is told the step and the loss (:func:`picture_loss`)."""
        for batch in batches(self.data, self.config, self.step):
            for group in self.optimizer.param_groups:
                group["lr"] = self.config.rate(self.step)
            heard = send(batch.tap, batch.sigma, batch.snr_db, step_noise(self.config, self.step))
            loss = picture_loss(self.inverter(heard), batch.picture, self.config.similarity_weight)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.inverter.parameters(), 5.0)
            self.optimizer.step()
            self.step += 1
            self.losses.append([round(loss.item(), 4)])
            progress(self.step, self.losses[-1])
            if self.step % self.config.checkpoint_every == 0 or self.step == self.config.steps:
                self.save()
        self.settle()
