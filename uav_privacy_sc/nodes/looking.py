"""What protection shows on board alone: the budget map as colours, a badge, and true places in experiments.

The map follows from where people are whenever it is built from detections, and true places always do; so none of these
topics lives in the ground's domain, and no recorder keeps them.
"""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Duration
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from uav_privacy_sc.nodes.conversion import MARKER_PLANE_M

BUDGET_MAP, BADGE, TRUE_MARKERS = "protection/budget_map", "protection/badge", "protection/true_markers"
BADGE_PERIOD_S = 1.0
#: A badge that nobody renews vanishes: what is not confirmed is not shown as protected.
BADGE_LIFETIME_S = 3
#: Epsilon of the first and the last colour; the scale between is logarithmic.
EPSILON_RANGE = (0.05, 20.0)
#: Little epsilon, much noise: dark blue. Much epsilon: yellow.
_COLOURS = np.array([(13, 8, 135), (126, 3, 168), (204, 71, 120), (248, 149, 64), (240, 249, 33)], np.float64)
_NOT_A_BUDGET = (255, 255, 255)
_RED, _AMBER, _GREEN = (0.9, 0.15, 0.15), (0.95, 0.65, 0.1), (0.15, 0.7, 0.3)


def budget_map_picture(epsilon: np.ndarray, scale: int = 8) -> np.ndarray:
    """Return a (scale·H', scale·W', 3) uint8 RGB picture of an (H', W') map of epsilon; white where it is no number."""
    low, high = np.log(EPSILON_RANGE)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.clip((np.log(epsilon) - low) / (high - low), 0.0, 1.0) * (len(_COLOURS) - 1)
    known = np.isfinite(place)
    below = np.minimum(np.where(known, place, 0.0).astype(int), len(_COLOURS) - 2)
    share = (np.where(known, place, 0.0) - below)[..., None]
    colours = (_COLOURS[below] * (1.0 - share) + _COLOURS[below + 1] * share).round().astype(np.uint8)
    colours[~known] = _NOT_A_BUDGET
    return colours.repeat(scale, axis=0).repeat(scale, axis=1)


def badge_to_message(protected: bool, experiment: bool, text: str, header: Header) -> MarkerArray:
    """Return one line of text above the picture's plane: green for protected, amber for experiments, else red."""
    marker = Marker(header=header, ns="badge", id=0, type=Marker.TEXT_VIEW_FACING, action=Marker.ADD)
    marker.lifetime = Duration(sec=BADGE_LIFETIME_S)
    marker.pose.position.x, marker.pose.position.y = MARKER_PLANE_M / 2, -0.1 * MARKER_PLANE_M
    marker.pose.orientation.w = 1.0
    marker.scale.z = 0.06 * MARKER_PLANE_M
    marker.text = text if experiment and protected else "PROTECTED" if protected else f"NOT RELEASING: {text}"
    colour = _RED if not protected else _AMBER if experiment else _GREEN
    marker.color.r, marker.color.g, marker.color.b, marker.color.a = (*colour, 1.0)
    return MarkerArray(markers=[marker])
