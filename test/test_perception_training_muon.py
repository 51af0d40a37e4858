"""Muon: its steps are orthogonal, as long as said, and go downhill."""

from __future__ import annotations

import math
from itertools import product

import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc.perception.training.muon import Muon, orthogonal  # noqa: E402


@pytest.mark.parametrize("shape", [(8, 8), (16, 144), (144, 16), (1, 9), (9, 1)])
def test_orthogonal_keeps_the_directions_and_levels_their_lengths(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    lengths = u.T @ orthogonal(matrix) @ v.T  # diagonal where the singular vectors are the same
    assert torch.allclose(lengths, torch.diag(lengths.diagonal()), atol=1e-4)
    assert (s / s[0] > 0.02).all(), "the matrix drawn has no tiny direction"
    assert lengths.diagonal().min() > 0.6 and lengths.diagonal().max() < 1.25


def test_orthogonal_of_nothing_is_nothing() -> None:
    assert not orthogonal(torch.zeros(3, 5)).any()


def test_orthogonal_does_not_depend_on_the_scale() -> None:
    matrix = torch.randn(6, 20, generator=torch.Generator().manual_seed(4))
    assert torch.allclose(orthogonal(matrix), orthogonal(1e3 * matrix), atol=1e-5)


LAYOUTS = (torch.contiguous_format, torch.channels_last)


@pytest.mark.parametrize("shape", [(4, 2, 3, 3), (32, 8, 1, 1), (64, 1, 3, 3)])
@pytest.mark.parametrize("layouts", list(product(LAYOUTS, LAYOUTS)))
def test_a_first_step_follows_the_gradient_made_orthogonal_in_any_layout(
    shape: tuple[int, ...], layouts: tuple[torch.memory_format, torch.memory_format]
) -> None:
    start, grad = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in (5, 6))
    filters = torch.nn.Parameter(start.clone(memory_format=layouts[0]))
    filters.grad = grad.clone(memory_format=layouts[1])
    Muon([filters], lr=0.1).step()
    rows, columns = grad.flatten(1).shape
    length = 0.1 * max(1, rows / columns) ** 0.5
    expected = start - length * orthogonal(grad.flatten(1)).reshape(shape)
    torch.testing.assert_close(filters.detach(), expected, atol=1e-4, rtol=0)
    assert filters.is_contiguous(memory_format=layouts[0])


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has Muon from 2.9 on")
def test_steps_are_those_of_torchs_muon_but_for_its_precision() -> None:
    grads = torch.randn(4, 6, 12, generator=torch.Generator().manual_seed(9))
    ours, theirs = (torch.nn.Parameter(torch.zeros(6, 12)) for _ in range(2))
    steps(Muon([ours], lr=0.1), ours, grads)
    steps(torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0), theirs, grads)
    assert (ours - theirs).norm() < 0.03 * theirs.norm(), "torch iterates in bfloat16"


def steps(optimizer: torch.optim.Optimizer, filters: torch.nn.Parameter, grads: torch.Tensor) -> None:
    for grad in grads:
        filters.grad = grad.clone()
        optimizer.step()


def test_momentum_is_carried_by_the_state() -> None:
    grads = torch.randn(5, 4, 6, generator=torch.Generator().manual_seed(7))
    through = torch.nn.Parameter(torch.zeros(4, 6))
    steps(Muon([through], lr=0.1), through, grads)
    resumed = torch.nn.Parameter(torch.zeros(4, 6))
    first = Muon([resumed], lr=0.1)
    steps(first, resumed, grads[:2])
    second = Muon([resumed], lr=0.5)
    second.load_state_dict(first.state_dict())
    steps(second, resumed, grads[2:])
    assert torch.equal(through, resumed)


def test_it_goes_downhill_to_the_least() -> None:
    target = torch.randn(6, 6, generator=torch.Generator().manual_seed(8))
    filters = torch.nn.Parameter(torch.zeros(6, 6))
    optimizer = Muon([filters], lr=0.1)
    for k in range(200):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - k / 200)
        optimizer.zero_grad()
        (filters - target).square().sum().backward()
        optimizer.step()
    assert (filters - target).abs().max() < 0.02


def test_what_has_no_gradient_stays() -> None:
    filters = torch.nn.Parameter(torch.ones(2, 3))
    Muon([filters], lr=0.1).step()
    assert torch.equal(filters, torch.ones(2, 3))


def test_a_closure_finds_the_gradient() -> None:
    filters = torch.nn.Parameter(torch.ones(2, 3))

    def closure() -> torch.Tensor:
        loss = filters.square().sum()
        loss.backward()
        return loss

    assert Muon([filters], lr=0.1).step(closure).item() == 6.0
    assert (filters < 1).all()


@pytest.mark.parametrize(
    ("filters", "settings", "said"),
    [
        (torch.ones(7), {"lr": 0.1}, r"filters of shape \(7,\) are no matrix"),
        (torch.tensor(1.0), {"lr": 0.1}, r"filters of shape \(\) are no matrix"),
        (torch.ones(2, 2), {"lr": -1.0}, "lr=-1.0 must be above 0"),
        (torch.ones(2, 2), {"lr": math.nan}, "lr=nan must be above 0"),
        (torch.ones(2, 2), {"lr": 0.1, "momentum": 1.0}, "momentum=1.0 must be from 0 to below 1"),
    ],
)
def test_what_cannot_be_is_refused(filters: torch.Tensor, settings: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Muon([torch.nn.Parameter(filters)], **settings)
