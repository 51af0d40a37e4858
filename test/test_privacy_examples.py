"""The examples in the docstrings of the privacy library say what happens."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["accountant", "randomness", "tracking"])
def test_examples_run_as_printed(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"uav_privacy_sc.privacy.{name}"))
    assert result.attempted > 0 and result.failed == 0
