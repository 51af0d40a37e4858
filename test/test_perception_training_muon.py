"""Muon: its steps are orthogonal, as long as said, and go downhill."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from uav_privacy_sc.perception.training.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (16, 144), (144, 16), (1, 9), (9, 1)])
def test_orthogonal_keeps_the_directions_and_levels_their_lengths(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    lengths = u.T @ orthogonal(matrix) @ v.T  # diagonal where the singular vectors are the same
    assert torch.allclose(lengths, torch.diag(lengths.diagonal()), atol=1e-4)
    assert (s / s[0] > 0.02).all(), "the matrix drawn has no tiny direction"
    assert lengths.diagonal().min() > 0.6 and lengths.diagonal().max() < 1.25


def test_orthogonal_of_nothing_is_nothing():
    assert not orthogonal(torch.zeros(3, 5)).any()


def test_orthogonal_does_not_depend_on_the_scale():
    matrix = torch.randn(6, 20, generator=torch.Generator().manual_seed(4))
    assert torch.allclose(orthogonal(matrix), orthogonal(1e3 * matrix), atol=1e-5)


@pytest.mark.parametrize(("shape", "wider"), [((4, 2, 3, 3), 1.0), ((32, 8, 1, 1), 2.0)])
def test_a_first_step_is_as_long_in_every_direction_as_the_rate(shape, wider):
    start = torch.randn(shape, generator=torch.Generator().manual_seed(5)).to(memory_format=torch.channels_last)
    filters = torch.nn.Parameter(start.clone())
    filters.grad = torch.randn(shape, generator=torch.Generator().manual_seed(6))
    Muon([filters], lr=0.1).step()
    lengths = torch.linalg.svdvals((start - filters.detach()).flatten(1)).numpy()
    np.testing.assert_allclose(lengths, 0.1 * wider, rtol=0.4)


def test_momentum_is_carried_by_the_state():
    grads = torch.randn(5, 4, 6, generator=torch.Generator().manual_seed(7))

    def steps(optimizer, filters, chosen):
        for grad in chosen:
            filters.grad = grad.clone()
            optimizer.step()

    through = torch.nn.Parameter(torch.zeros(4, 6))
    steps(Muon([through], lr=0.1), through, grads)
    resumed = torch.nn.Parameter(torch.zeros(4, 6))
    first = Muon([resumed], lr=0.1)
    steps(first, resumed, grads[:2])
    second = Muon([resumed], lr=0.5)
    second.load_state_dict(first.state_dict())
    steps(second, resumed, grads[2:])
    assert torch.equal(through, resumed)


def test_it_goes_downhill_to_the_least():
    target = torch.randn(6, 6, generator=torch.Generator().manual_seed(8))
    filters = torch.nn.Parameter(torch.zeros(6, 6))
    optimizer = Muon([filters], lr=0.1)
    for k in range(200):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - k / 200)
        optimizer.zero_grad()
        (filters - target).square().sum().backward()
        optimizer.step()
    assert (filters - target).abs().max() < 0.02


def test_what_has_no_gradient_stays():
    filters = torch.nn.Parameter(torch.ones(2, 3))
    Muon([filters], lr=0.1).step()
    assert torch.equal(filters, torch.ones(2, 3))


def test_vectors_are_refused():
    with pytest.raises(ValueError, match=r"filters=\(7,\) has one dimension"):
        Muon([torch.nn.Parameter(torch.ones(7))], lr=0.1)
