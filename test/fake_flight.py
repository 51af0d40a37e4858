"""A flight log made up for tests: drawn scenes, plausible numbers, no network and no ROS."""

from __future__ import annotations

import math

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.flight import STAGES, FlightConfig, FlightLog, FrameLog
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.payload import analog_payload
from uav_privacy_sc.pipeline import Budgets, ReleaseRecord

ROAD, BUILDING, VEGETATION, GROUND = (scene.MASK_CLASSES.index(name) for name in scene.SCENE_CLASSES)


def drawn_scene(number: int, height: int = 180, width: int = 320) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return image, mask and objects of a street with one car and two pedestrians that move."""
    image = np.full((height, width, 3), (120, 140, 90), np.uint8)
    mask = np.full((height, width), VEGETATION, np.uint8)
    _fill(image, mask, (0, 0.35, 1, 0.75), (95, 95, 100), ROAD)
    _fill(image, mask, (0.05, 0, 0.3, 0.3), (170, 110, 90), BUILDING)
    rows = [
        (3, (0.1 + 0.008 * number, 0.55), (0.14, 0.12)),
        (0, (0.6, 0.8), (0.03, 0.09)),
        (1, (0.75, 0.4), (0.04, 0.1)),
    ]
    objects = scene.make_objects(
        np.array([row[1] for row in rows]), np.array([row[2] for row in rows]), np.array([row[0] for row in rows])
    )
    colours = ((200, 40, 40), (30, 30, 160), (230, 200, 40))
    for box, colour, label in zip(scene.corners(objects), colours, objects["label"], strict=True):
        _fill(image, mask, box, colour, label)
    noise = np.random.default_rng(number).normal(0, 6, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8), mask, objects


def _fill(image: np.ndarray, mask: np.ndarray, box: object, colour: tuple[int, int, int], label: int) -> None:
    height, width = mask.shape
    x1, y1, x2, y2 = box
    part = np.s_[int(y1 * height) : int(y2 * height), int(x1 * width) : int(x2 * width)]
    image[part], mask[part] = colour, label


def fake_features(image: np.ndarray, grid: tuple[int, int] = (22, 40)) -> np.ndarray:
    """Return ``(16, rows, columns)`` features whose first three channels are the small picture."""
    small = cv2.resize(image, grid[::-1], interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return np.concatenate([small.transpose(2, 0, 1)] * 6)[:16].astype(np.float32)


def fake_attacker(features: np.ndarray) -> np.ndarray:
    """Read the picture back out of :func:`fake_features`."""
    picture = np.clip(features[:3].transpose(1, 2, 0), 0, 1)
    return (cv2.resize(picture, (320, 176), interpolation=cv2.INTER_LINEAR).clip(0, 1) * 255).astype(np.uint8)


def fake_decoder(features: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Call the bright road a road and the rest vegetation, and paint the objects it was told of."""
    grey = cv2.resize(features[:3].mean(axis=0), (160, 88))
    mask = np.where(grey < 0.41, ROAD, VEGETATION).astype(np.uint8)
    mask[grey > 0.46] = GROUND
    for label, (u1, v1, u2, v2) in zip(
        objects["label"], scene.grid_boxes(scene.corners(objects), mask.shape), strict=True
    ):
        mask[v1:v2, u1:u2] = label
    return mask


def fake_record(stamp_ns: int, number: int, budgets: Budgets, objects: int) -> ReleaseRecord:
    """Return a record whose mission epsilon grows with the square root of the frames."""
    mission = 9.0 * math.sqrt(number + 1) + 0.4 * number
    return ReleaseRecord(
        stamp_ns=stamp_ns,
        mechanism="region_aware",
        calibration="analytic",
        map_rule="algorithm1",
        map_source="released",
        location_branch=budgets.location_branch,
        seeded=True,
        objects=objects,
        epsilon_v=budgets.epsilon_v,
        epsilon_l=budgets.epsilon_l,
        p_tx=budgets.p_tx,
        delta=1e-5,
        c_clip=1.0,
        epsilon_cell_min=0.3 * budgets.epsilon_v,
        epsilon_cell_mean=budgets.epsilon_v,
        epsilon_cell_max=1.12 * budgets.epsilon_v,
        spent_cell_epsilon=3.6,
        spent_object_epsilon=9.4,
        spent_frame_epsilon=61.0,
        spent_mission_epsilon=mission,
        spent_mission_delta=1e-5,
    )


def fake_frame(number: int, rng: np.random.Generator, truth: bool = True) -> FrameLog:
    """Return one complete frame."""
    image, mask, objects = drawn_scene(number)
    stamp_ns = 1_000_000_000 + number * 100_000_000
    gain_db = 14 + 5 * math.sin(number / 5) + rng.normal(0, 2)
    budgets = Budgets(
        3.0 + 0.4 * math.sin(number / 7), 2.0 - 0.4 * math.sin(number / 7), 1.1 + 0.5 * math.cos(number / 9)
    )
    epsilon = np.full((22, 40), 1.12 * budgets.epsilon_v)
    epsilon[scene.coverage(scene.corners(objects), (22, 40))[1:].any(axis=0)] = 0.3 * budgets.epsilon_v
    features = fake_features(image)
    noised = (features + rng.normal(0, 0.6, features.shape)).astype(np.float32)
    released = objects.copy()
    released["x"] += rng.normal(0, 0.03, len(objects)).astype(np.float32)
    snr_db = gain_db + 10 * math.log10(budgets.p_tx)
    return FrameLog(
        index=number,
        stamp_ns=stamp_ns,
        image=image,
        truth_objects=objects if truth else None,
        truth_mask=mask if truth else None,
        percept_objects=objects,
        raw_features=features,
        epsilon_map=epsilon,
        budgets=budgets,
        utility=0.8 + 0.05 * math.sin(number / 6),
        status="converged",
        record=fake_record(stamp_ns, number, budgets, len(objects)),
        gain_db=gain_db,
        distance_m=120.0 + 5.0 * number,
        payload=analog_payload(features.size, len(objects), LinkConfig()),
        ground_heard=True,
        ground_snr_db=snr_db,
        ground_objects=released,
        ground_mask=fake_decoder(noised, released),
        eve_snr_db=snr_db + 3,
        eve_features=noised,
        eve_objects=released,
        eve_reconstruction=fake_attacker(noised),
        stage_ms={stage: 5.0 * (place + 1) + rng.normal(0, 0.5) for place, stage in enumerate(STAGES)},
    )


def fake_log(frames: int = 12, truth: bool = True, lost: tuple[int, ...] = (5,)) -> FlightLog:
    """Return a finished flight; the frames in ``lost`` were broken in the source."""
    rng = np.random.default_rng(11)
    log = FlightLog(FlightConfig(seed=7), "made-up flight", 10.0)
    for number in range(frames):
        stamp_ns = 1_000_000_000 + number * 100_000_000
        broken = FrameLog(number, stamp_ns, dropped="broken picture")
        log.frames.append(broken if number in lost else fake_frame(number, rng, truth))
    for frame in log.frames:
        for stage, value in frame.stage_ms.items():
            log.stage_ms[stage].append(value)
    whole = frames - sum(number < frames for number in lost)
    log.counts.update(frames_in=frames, broken=frames - whole, wall_s=0.35 * frames)
    log.counts.update(dict.fromkeys(("perceived", "released", "received", "decoded"), whole))
    return log
