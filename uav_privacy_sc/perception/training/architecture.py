"""The detector networks that are trained here, all of ultralytics' own layers, so that ultralytics opens them.

``yolo11n-p2`` is YOLO11n with one more level: its 8-pixel features are taken up to cells of 4 pixels, joined with the
backbone's, and read by the head. Every layer of YOLO11n but the head keeps its place and shape, so weights and codecs
that were made for the one fit the other.
"""

from __future__ import annotations

from typing import Any

import torch

from uav_privacy_sc import scene

#: Cells of 8, 16 and 32 pixels; and of 4 as well.
ARCHITECTURES = ("yolo11n", "yolo11n-p2")
#: Layer whose features have cells of 4 pixels, and the width of the added level before the network's scale (1/4).
_STRIDE_4_LAYER, _STRIDE_4_WIDTH = 2, 256


def new_network(architecture: str) -> Any:
    """Return an untrained ultralytics DetectionModel for the ten VisDrone classes.

    ``architecture`` is of :data:`ARCHITECTURES`. Pictures ``(N, 3, H, W)`` with sides that 32 divides go in; in
    evaluation mode ``(N, 14, cells)`` come out, a box and ten scores for each cell of each size.
    """
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel, yaml_model_load

    plan = yaml_model_load("yolo11n.yaml")
    plan["nc"] = len(scene.OBJECT_CLASSES)
    if architecture == ARCHITECTURES[1]:
        _add_level(plan)
    model = DetectionModel(plan, ch=3, verbose=False)
    model.names = dict(enumerate(scene.OBJECT_CLASSES))
    model.args = get_cfg()
    return model


def _add_level(plan: dict[str, Any]) -> None:
    *neck, (levels, repeats, head, arguments) = plan["head"]
    first = len(plan["backbone"]) + len(neck)
    neck += [
        [levels[0], 1, "nn.Upsample", [None, 2, "nearest"]],
        [[-1, _STRIDE_4_LAYER], 1, "Concat", [1]],
        [-1, 2, "C3k2", [_STRIDE_4_WIDTH, False]],
    ]
    plan["head"] = [*neck, [[first + 2, *levels], repeats, head, arguments]]


def matched_to(model: Any, given: Any) -> dict[str, Any]:
    """Return the state of the ultralytics network ``given`` under the names that ``model`` has for the same parts.

    Both count the head's branches from their finest level; here they are told apart by the size of their cells. A
    network whose head has no cells of known sizes keeps its own names.
    """
    own, other = model.model[-1], given.model[-1]
    if not isinstance(getattr(other, "stride", None), torch.Tensor):
        return dict(given.state_dict())
    mine, theirs = f"model.{len(model.model) - 1}.", f"model.{len(given.model) - 1}."
    strides = [float(s) for s in own.stride]
    place = {k: strides.index(float(s)) for k, s in enumerate(other.stride) if float(s) in strides}
    state = {}
    for name, value in given.state_dict().items():
        if name.startswith(theirs):
            branch, _, rest = name.removeprefix(theirs).partition(".")
            level, _, parameter = rest.partition(".")
            if level.isdigit() and branch != "dfl":
                if int(level) not in place:
                    continue
                level = str(place[int(level)])
            name = f"{mine}{branch}.{level}{'.' if parameter else ''}{parameter}"
        state[name] = value
    return state
