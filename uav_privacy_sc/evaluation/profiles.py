"""A profile's protection as configuration: what a protection node with the same parameter file would be built from."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from uav_privacy_sc.graph import profile_parameters
from uav_privacy_sc.object_release import ObjectConfig
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.privacy.visual import VisualConfig
from uav_privacy_sc.protection import ProtectionConfig


@lru_cache(maxsize=8)
def protection_config(profile: str | Path) -> ProtectionConfig:
    """Return the protection of ``hardened``, ``paper`` or a ROS parameter file.

    Raises:
        ValueError: no such profile, or a value out of its range.
    """
    given = profile_parameters(profile, "protection")
    visual = _taken(given, "mechanism", "c_clip", "delta", "calibration", "map_source", "channels")
    visual |= _taken(given, "undetected_cells", "reach_cells")
    budget_map = _taken(given, "kappa_ctx", "kappa_bg", "epsilon_min")
    if "map_rule" in given:
        budget_map["rule"] = given["map_rule"]
    options: dict[str, Any] = {
        name: given.get(name) or None for name in ("label_epsilon", "size_epsilon", "count_epsilon")
    }
    options |= _taken(given, "hide_score", "count_margin")
    if "shuffle_objects" in given:
        options["shuffle"] = given["shuffle_objects"]
    places = _taken(given, "location_mode", "test_ratio")
    return ProtectionConfig(
        VisualConfig(lattice_step=given.get("lattice_step") or None, **visual),
        BudgetMapConfig(**budget_map),
        objects=ObjectConfig(DescriptorConfig(**options), **places),
    )


def _taken(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def varied(
    config: ProtectionConfig, mechanism: str | None = None, kappa_bg: float | None = None, **budget_map: Any
) -> ProtectionConfig:
    """Return the same protection by another mechanism, or with another budget map."""
    visual = config.visual if mechanism is None else replace(config.visual, mechanism=mechanism)
    if kappa_bg is not None:
        budget_map["kappa_bg"] = kappa_bg
    return replace(config, visual=visual, budget_map=replace(config.budget_map, **budget_map))
