"""How far an object changes features, in the network that runs and at every size of picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.perception.codec import Codec  # noqa: E402
from uav_privacy_sc.perception.image import network_size, resize  # noqa: E402
from uav_privacy_sc.perception.stage import Perception  # noqa: E402
from uav_privacy_sc.perception.training.detector import save_yolo  # noqa: E402
from uav_privacy_sc.perception.weights import save_module  # noqa: E402
from uav_privacy_sc.privacy.visual import VisualConfig  # noqa: E402


@pytest.mark.parametrize(
    ("width", "height"),
    [(3, 2), (40, 24), (160, 90), (200, 120), (320, 180), (500, 281), (640, 352), (960, 540), (1279, 721)],
)
def test_an_objects_pixels_hardly_leave_its_place_when_a_picture_is_resized(width: int, height: int) -> None:
    rng = np.random.default_rng(1)
    size = network_size(width, height)
    for _ in range(5):
        x1, y1 = rng.integers(0, width), rng.integers(0, height)
        x2, y2 = rng.integers(x1, width) + 1, rng.integers(y1, height) + 1
        before = rng.integers(0, 256, (height, width, 3), np.uint8)
        after = before.copy()
        after[y1:y2, x1:x2] = rng.integers(0, 256, 3)
        rows, columns = np.nonzero((resize(before, size) != resize(after, size)).any(axis=2))
        if len(rows):
            scale = np.array(size) / (width, height)
            assert columns.min() >= np.floor(x1 * scale[0]) - 1 and columns.max() <= np.ceil(x2 * scale[0])
            assert rows.min() >= np.floor(y1 * scale[1]) - 1 and rows.max() <= np.ceil(y2 * scale[1])


def test_the_reach_is_that_of_the_detector_that_runs(tmp_path: Path) -> None:
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolov8s.yaml", ch=3, nc=10, verbose=False)  # layer 4: 128 channels, stride 8, another reach
    model.names, model.args = dict(enumerate(scene.OBJECT_CLASSES)), get_cfg()
    save_yolo(model, tmp_path / "other.pt", {})
    save_module(tmp_path / "codec.pt", codec := Codec(), codec.settings)
    perception = Perception(tmp_path, "cpu", detector=tmp_path / "other.pt")
    assert codec.settings["reach_cells"] == 2 < perception.reach_cells == 3
    assert perception.features(np.zeros((64, 96, 3), np.uint8)).shape[0] == 16, "the tap is hooked as before"


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("reach", [0, 1, 2, 7])
def test_a_missed_object_of_any_shape_is_paid_for(cells: int, reach: int) -> None:
    charged = VisualConfig(undetected_cells=cells, reach_cells=reach).missed_cells
    shapes = [(a, b) for a in range(1, cells + 1) for b in range(1, cells + 1) if a * b <= cells]
    assert charged == max((a + 2 * reach) * (b + 2 * reach) for a, b in shapes)
