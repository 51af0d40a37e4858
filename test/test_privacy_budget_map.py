"""Budget map: the published factors, both rules, overlaps, context rings and boxes that cover nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from uav_privacy_sc import scene
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig, budget_map, degenerate_boxes, object_cells

GRID = (22, 40)
LABEL = {name: index for index, name in enumerate(scene.OBJECT_CLASSES)}
NO_RING = {"pedestrian": 1.0, "people": 1.0}


def objects_of(*boxes: tuple[float, float, float, float, str]) -> np.ndarray:
    """Return objects from (x, y, w, h, class)."""
    table = np.array([box[:4] for box in boxes])
    return scene.make_objects(table[:, :2], table[:, 2:], [LABEL[box[4]] for box in boxes])


def reference_map(objects: np.ndarray, epsilon_v: float, config: BudgetMapConfig) -> np.ndarray:
    """P1 Algorithm 1 (or Eq. 11), line by line and cell by cell."""
    kappa = dict(zip(scene.OBJECT_CLASSES, config.class_factors, strict=True))
    background, context = config.kappa_bg * epsilon_v, config.kappa_ctx * epsilon_v
    covered = scene.coverage(scene.corners(objects), GRID)
    rings = objects.copy()
    factor = config.expansions[objects["label"]]
    rings["w"], rings["h"] = objects["w"] * factor, objects["h"] * factor
    ringed = scene.coverage(scene.corners(rings)[factor > 1], GRID).any(axis=0)
    result = np.full(GRID, background)
    for row in range(GRID[0]):
        for column in range(GRID[1]):
            inside = [
                max(kappa[scene.OBJECT_CLASSES[label]] * epsilon_v, config.epsilon_min)
                for label in objects["label"][covered[:, row, column]]
            ]
            value = min(inside) if inside else context if ringed[row, column] else background
            result[row, column] = min(value, background) if config.rule == "algorithm1" else value
    return result


@st.composite
def some_objects(draw: st.DrawFn) -> np.ndarray:
    count = draw(st.integers(0, 8))
    numbers = draw(hnp.arrays(np.float32, (count, 4), elements=st.floats(-0.25, 1.25, width=16)))
    labels = draw(hnp.arrays(np.int32, count, elements=st.integers(0, 9)))
    return scene.make_objects(numbers[:, :2], numbers[:, 2:] * np.float32(0.5), labels)


@given(some_objects(), st.floats(0.01, 30), st.sampled_from(["algorithm1", "eq11"]), st.floats(0.1, 20))
def test_map_is_the_algorithm_read_cell_by_cell(
    objects: np.ndarray, epsilon_v: float, rule: str, kappa_bg: float
) -> None:
    config = BudgetMapConfig(rule=rule, kappa_bg=kappa_bg)
    np.testing.assert_allclose(
        budget_map(objects, GRID, epsilon_v, config), reference_map(objects, epsilon_v, config), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "factor"),
    [("pedestrian", 0.3), ("people", 0.3), ("bicycle", 1.38), ("motor", 1.5), ("tricycle", 1.52)]
    + [("awning-tricycle", 1.55), ("truck", 1.72), ("car", 1.82), ("van", 1.88), ("bus", 1.95)],
)
def test_published_factors_reach_the_cells_by_eq11_and_stop_at_the_background_by_algorithm1(
    name: str, factor: float
) -> None:
    objects = objects_of((0.5, 0.5, 0.2, 0.2, name))
    assert budget_map(objects, GRID, 2.0, BudgetMapConfig(rule="eq11"))[11, 20] == pytest.approx(2 * factor)
    assert budget_map(objects, GRID, 2.0)[11, 20] == pytest.approx(2 * min(factor, 1.12))


def test_overlap_takes_the_smallest_budget_whatever_the_order() -> None:
    boxes = [(0.5, 0.5, 0.3, 0.3, "car"), (0.5, 0.5, 0.1, 0.1, "pedestrian"), (0.5, 0.5, 0.4, 0.4, "bus")]
    config = BudgetMapConfig(rule="eq11", context_expansion=NO_RING)
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        cells = budget_map(objects_of(*[boxes[index] for index in order]), GRID, 1.0, config)
        assert cells[11, 20] == pytest.approx(0.3)
        assert cells[8, 20] == pytest.approx(1.82)


def test_context_ring_surrounds_sensitive_objects_and_spares_cells_of_objects() -> None:
    pedestrian, car = (0.5, 0.5, 0.1, 0.2, "pedestrian"), (0.575, 0.5, 0.05, 0.2, "car")
    cells = budget_map(objects_of(pedestrian, car), GRID, 1.0, BudgetMapConfig(rule="eq11"))
    assert cells[11, 20] == pytest.approx(0.3)
    assert cells[11, 16] == pytest.approx(0.52)
    assert cells[11, 23] == pytest.approx(1.82), "a car inside the ring keeps the budget of its class"
    assert cells[11, 10] == pytest.approx(1.12)
    assert budget_map(objects_of(car), GRID, 1.0).min() == pytest.approx(1.12), "a car has no ring"


def test_floor_keeps_object_cells_from_degenerate_noise() -> None:
    objects = objects_of((0.5, 0.5, 0.2, 0.2, "pedestrian"))
    assert budget_map(objects, GRID, 0.1)[11, 20] == pytest.approx(0.08)


@pytest.mark.parametrize("size", [(0.0, 0.1), (0.1, -0.1), (float("nan"), 0.1), (float("inf"), 0.1)])
def test_box_without_area_covers_nothing_and_is_counted(size: tuple[float, float]) -> None:
    objects = objects_of((0.5, 0.5, *size, "pedestrian"), (0.2, 0.2, 0.1, 0.1, "pedestrian"))
    np.testing.assert_array_equal(budget_map(objects, GRID, 1.0), budget_map(objects[1:], GRID, 1.0))
    assert degenerate_boxes(objects, GRID) == 1


def test_box_beyond_the_image_is_clamped_and_an_empty_scene_is_background() -> None:
    wide = objects_of((0.5, 0.5, 3.0, 3.0, "pedestrian"))
    assert (budget_map(wide, GRID, 1.0) == 0.3).all()
    np.testing.assert_allclose(budget_map(scene.no_objects(), GRID, 1.0), 1.12)


@given(some_objects())
def test_sum_over_an_objects_cells_counts_what_it_covers(objects: np.ndarray) -> None:
    values = np.random.default_rng(1).random(GRID)
    expected = (scene.coverage(scene.corners(objects), GRID) * values).sum(axis=(1, 2))
    np.testing.assert_allclose(object_cells(objects, values), expected, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_parameters_out_of_range_are_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="^epsilon_v must"):
        budget_map(scene.no_objects(), GRID, value)
    for name in ("kappa_ctx", "kappa_bg", "epsilon_min"):
        with pytest.raises(ValueError, match=f"^{name} must"):
            BudgetMapConfig(**{name: value})
    with pytest.raises(ValueError, match="^kappa of car must"):
        BudgetMapConfig(kappa={"car": value})


def test_unknown_class_rule_and_label_are_refused() -> None:
    with pytest.raises(ValueError, match="^rule must be one of"):
        BudgetMapConfig(rule="eq12")
    with pytest.raises(ValueError, match="^class of kappa must be one of"):
        BudgetMapConfig(kappa={"cat": 1.0})
    with pytest.raises(ValueError, match="^context_expansion of people must be at least 1, got 0.5"):
        BudgetMapConfig(context_expansion={"people": 0.5})
    strange = objects_of((0.5, 0.5, 0.1, 0.1, "car"))
    strange["label"] = 10
    with pytest.raises(ValueError, match="^label must be in 0..9, got 10"):
        budget_map(strange, GRID, 1.0)
