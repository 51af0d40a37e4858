"""One-shot Laplace: distribution, clip, the exact worst case, an audit, P3's claim exceeded, and composition."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import logsumexp

from uav_privacy_sc.privacy import audit
from uav_privacy_sc.privacy.oneshot import (
    OneshotLaplace,
    SparseUpdate,
    clip_l1,
    discrete_laplace,
    paper_epsilon,
    release_generator,
    worst_case_epsilon,
)
from uav_privacy_sc.privacy.oneshot_composition import composed_epsilon, laplace_epsilon, mechanism_terms
from uav_privacy_sc.privacy.randomness import RandomStreams

STEP = 2.0**-6


def _basis(size: int, entry: int, value: float) -> np.ndarray:
    vector = np.zeros(size)
    vector[entry] = value
    return vector


@pytest.mark.parametrize("scale", [0.7, 3.0, 40.0])
def test_the_noise_is_discrete_laplace(scale: float) -> None:
    draws = discrete_laplace(scale, 200_000, np.random.default_rng(3))
    reach = int(4 * scale) + 1
    values = np.arange(-reach, reach + 1)
    chance = np.tanh(0.5 / scale) * np.exp(-np.abs(values) / scale)
    seen = np.array([(draws == value).sum() for value in values])
    tail = 1 - chance.sum()
    test = stats.chisquare([*seen, len(draws) - seen.sum()], np.array([*chance, tail]) * len(draws))
    assert test.pvalue > 0.001


def test_neighbouring_entries_of_the_noise_are_independent() -> None:
    draws = discrete_laplace(50.0, 100_000, np.random.default_rng(4)).astype(float)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.015


@settings(max_examples=200, deadline=None)
@given(
    arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e300, 1e300)),
    st.floats(1e-3, 1e3),
)
def test_the_clip_is_enforced_whatever_comes(update: np.ndarray, bound: float) -> None:
    assert np.abs(clip_l1(update, bound)).sum() <= bound
    counts = OneshotLaplace(1.0, 1.0, bound, STEP).lattice_counts(update)
    assert np.abs(counts).sum() <= bound / STEP


def test_the_clip_keeps_direction_and_leaves_short_updates_alone() -> None:
    assert np.array_equal(clip_l1([0.25, -0.5], 1.0), [0.25, -0.5])
    assert clip_l1([3.0, -1.0], 1.0) == pytest.approx([0.75, -0.25])


@pytest.mark.parametrize("values", ["fresh", "same"])
def test_releases_lie_on_the_lattice_and_hold_what_was_asked(values: str) -> None:
    update = np.random.default_rng(0).standard_normal(500)
    sent = OneshotLaplace(0.5, 0.5, 3.0, STEP, values).release(update, 40, release_generator(1))
    assert sent.indices.shape == (40,) and (np.diff(sent.indices) > 0).all() and sent.size == 500
    assert np.array_equal(np.rint(sent.values / STEP) * STEP, sent.values)
    assert np.array_equal(sent.dense()[sent.indices], sent.values) and np.count_nonzero(sent.dense()) <= 40


def test_a_large_entry_is_found_and_its_value_is_unbiased() -> None:
    mechanism, update = OneshotLaplace(0.2, 0.2, 4.0, STEP), _basis(200, 17, 4.0)
    rng = release_generator(2)
    found = [mechanism.release(update, 3, rng) for _ in range(400)]
    values = [release.dense()[17] for release in found]
    assert all(17 in release.indices for release in found)
    assert np.mean(values) == pytest.approx(4.0, abs=4 * 0.2 * np.sqrt(2 / 400))
    assert np.std(values) == pytest.approx(0.2 * np.sqrt(2), rel=0.2)


@lru_cache
def _selection_chances(counts: tuple[int, ...], chosen: int, scale: float, reach: int = 24) -> dict[tuple, float]:
    """Every set's exact chance to be chosen, by summing over all noise up to ``reach`` steps."""
    size, noise = len(counts), np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(noise) / scale)
    weight /= weight.sum()
    sizes = [np.abs(count + noise) * size - place for place, count in enumerate(counts)]  # ties: the earlier wins
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*sizes, indexing="ij")])
    chance = np.prod(np.stack([axis.ravel() for axis in np.meshgrid(*[weight] * size, indexing="ij")]), axis=0)
    rank = np.argsort(-grid, axis=0)[:chosen]
    code = np.sum(1 << rank, axis=0)
    total = np.bincount(code, chance, 1 << size)
    return {a: float(total[sum(1 << i for i in a)]) for a in combinations(range(size), chosen)}


@pytest.mark.parametrize(("size", "chosen", "bound"), [(2, 1, 4), (2, 2, 4), (3, 1, 3), (3, 2, 3)])
@pytest.mark.parametrize(("scale_1", "scale_2", "careful"), [(1.0, 1.0, 0.6), (1.0, 0.4, 0.6), (1.0, 15.0, 0.06)])
def test_the_exact_epsilon_of_every_pair_is_within_the_claim(
    size: int, chosen: int, bound: int, scale_1: float, scale_2: float, careful: float
) -> None:
    inputs = [g for g in product(range(-bound, bound + 1), repeat=size) if sum(map(abs, g)) <= bound]
    chances = {g: _selection_chances(g, chosen, scale_1) for g in inputs if min(g) >= 0}
    worst = 0.0
    for first, second in product(inputs, inputs):
        p, q = (chances[tuple(map(abs, g))] for g in (first, second))
        for a in p:
            values = sum(abs(first[i] - second[i]) for i in a) / scale_2  # reached by values beyond both inputs
            worst = max(worst, np.log(p[a] / q[a]) + values)
    claim = worst_case_epsilon(bound, scale_1, scale_2)
    assert worst <= claim + 1e-6
    assert worst >= careful * claim, "the claim would be far too careful"
    assert claim <= 2 * bound / scale_1 + 2 * bound / scale_2


def _log_selected(inside: list[tuple[float, int]], outside: list[tuple[float, int]]) -> float:
    """Log chance that all ``inside`` (size, how many) beat all ``outside`` under continuous Laplace noise."""
    t = np.linspace(1e-6, 60, 100_001)

    def above(size: float) -> np.ndarray:
        far = -t + np.logaddexp(size, -size) - np.log(2)
        near = np.log1p(-(np.exp(np.minimum(t - size, 0)) - np.exp(-size - t)) / 2)
        return np.where(t > size, far, near)

    def below(size: float) -> np.ndarray:
        inner = np.log(np.sinh(np.minimum(t, size) if size else t)) - size
        return np.where(t < size, inner, np.log(-np.expm1(above(size))))

    beaten = sum(number * above(size) for size, number in inside)
    losing = sum(number * below(size) for size, number in outside)
    return float(logsumexp(beaten[:-1] + np.log(-np.expm1(np.diff(beaten))) + (losing[1:] + losing[:-1]) / 2))


def test_the_selection_may_really_cost_nearly_2g_over_sigma() -> None:
    """G spread over the 20 chosen entries against G on one that is not, among 30,000 others."""
    spread = _log_selected([(10.0, 20)], [(0.0, 30_001)])
    single = _log_selected([(0.0, 20)], [(0.0, 30_000), (200.0, 1)])
    assert 0.85 * 400 < spread - single <= 400


def test_the_code_chooses_as_the_exact_chances_say() -> None:
    counts, mechanism = (3, 1, 0), OneshotLaplace(8 * STEP, 8 * STEP, 4 * STEP, STEP)
    chances = _selection_chances(counts, 2, 8.0, reach=70)
    rng, trials = release_generator(5), 10_000
    seen = dict.fromkeys(chances, 0)
    for _ in range(trials):
        seen[tuple(mechanism.release(np.array(counts) * STEP, 2, rng).indices.tolist())] += 1
    assert stats.chisquare(list(seen.values()), np.array(list(chances.values())) * trials).pvalue > 0.001


def _subject(mechanism: OneshotLaplace, pair: tuple, count: int, epsilon: float) -> audit.Subject:
    def sampler(update: np.ndarray):
        def draw(number: int, streams: RandomStreams) -> np.ndarray:
            return np.stack([mechanism.release(update, count, streams.visual).dense() for _ in range(number)])

        return draw

    return audit.Subject(sampler(pair[0]), sampler(pair[1]), epsilon, 0.0, False, "two updates of norm G")


@pytest.mark.parametrize(
    ("mechanism", "size", "count"),
    [
        (OneshotLaplace(1.0, 1.0, 1.0, STEP, "same"), 4, 4),
        (OneshotLaplace(20.0, 1.0, 1.0, STEP), 4, 4),  # epsilon sits in the values
        (OneshotLaplace(1.0, 1.0, 1.0, STEP), 3, 3),
    ],
)
def test_an_audit_of_the_worst_pair_comes_near_the_claim_and_not_above(
    mechanism: OneshotLaplace, size: int, count: int
) -> None:
    pair = _basis(size, 0, 1.0), _basis(size, 0, -1.0)
    claim = mechanism.worst_case_epsilon
    result = audit.audit_subject("oneshot", _subject(mechanism, pair, count, claim), 12_000, 0.999, RandomStreams(3))
    assert result.holds
    assert result.lower_epsilon > (0.85 if mechanism.sigma_1 > 1 or mechanism.values == "same" else 0.55) * claim


def test_half_of_the_claimed_epsilon_is_caught() -> None:
    mechanism = OneshotLaplace(1.0, 1.0, 1.0, STEP, "same")
    subject = _subject(mechanism, (_basis(4, 0, 1.0), _basis(4, 0, -1.0)), 4, mechanism.worst_case_epsilon / 2)
    assert not audit.audit_subject("lying", subject, 8_000, 0.999, RandomStreams(3)).holds


@pytest.mark.parametrize("strategy", ["gradient", "features"])
def test_two_neighbours_exceed_what_theorem_1_claims(strategy: str) -> None:
    """P3: N = 100 parameters, S = 5, sigma_1 = sigma_2 = 1, G = 4: epsilon 1.2, or 0.6. Measured: above 3."""
    size, count, bound = 100, 5, 4.0
    claim = paper_epsilon(count, bound, size, 1.0, 1.0, strategy)
    if strategy == "features":  # the encoder is half the model, its bound half the bound, half as many are chosen
        size, count, bound = 50, 3, 3.5  # a little more than G/2, as S/2 is no whole number; the claim is far off
    mechanism = OneshotLaplace(1.0, 1.0, bound, STEP)
    pair = _basis(size, 0, bound), _basis(size, 0, -bound)
    result = audit.audit_subject("P3", _subject(mechanism, pair, count, claim), 12_000, 0.999, RandomStreams(9))
    assert not result.holds
    assert 3 * claim < result.lower_epsilon <= mechanism.worst_case_epsilon
    assert result.lower_epsilon > 3.0


def test_the_selection_alone_tells_more_than_theorem_1_allows() -> None:
    """The values may be as noisy as one likes: which entries were chosen gives the change away."""
    mechanism = OneshotLaplace(1.0, 1000.0, 6.0, STEP)
    claim = paper_epsilon(5, 6.0, 100, 1.0, 1000.0)
    rng, trials, hits = release_generator(8), 6000, []
    for entry in (0, 1):
        chosen = [0 in mechanism.release(_basis(100, entry, 6.0), 5, rng).indices for _ in range(trials)]
        hits.append(sum(chosen))
    low, high = audit.clopper_pearson(hits[0], trials, 5e-4)[0], audit.clopper_pearson(hits[1], trials, 5e-4)[1]
    assert claim < 1.3
    assert np.log(low / high) > 1.5 * claim


def test_theorem_1_by_hand() -> None:
    assert paper_epsilon(30, 2.0, 300, 0.5, 0.25) == pytest.approx(4 * 30 * 2 / (300 * 0.5) + 2 * 30 * 2 / (300 * 0.25))
    assert paper_epsilon(30, 2.0, 300, 0.5, 0.25, "features") == paper_epsilon(30, 2.0, 300, 0.5, 0.25) / 2


def test_the_worst_case_by_hand() -> None:
    assert worst_case_epsilon(2.0, 0.5, 0.5) == pytest.approx(12.0)
    assert worst_case_epsilon(2.0, 0.5, 1.0) == pytest.approx(10.0)
    assert worst_case_epsilon(2.0, 1.0, 0.5) == pytest.approx(10.0)
    assert worst_case_epsilon(2.0, 0.5, 1e-9, "same") == pytest.approx(8.0)
    assert OneshotLaplace(0.5, 1.0, 2.0).worst_case_epsilon == worst_case_epsilon(2.0, 0.5, 1.0)


def test_bounding_the_encoder_gives_the_factor_of_two_and_nothing_else_does() -> None:
    whole_model, encoder = OneshotLaplace(0.01, 0.01, 1.0), OneshotLaplace(0.01, 0.01, 0.5)
    assert encoder.worst_case_epsilon == whole_model.worst_case_epsilon / 2
    one_sided = _basis(100, 3, 1.0)  # all of the update in the encoder: P3's assumption fails, the clip does not
    assert np.abs(encoder.lattice_counts(one_sided)).sum() * encoder.step <= 0.5


def test_releases_differ_without_a_seed_and_repeat_with_one() -> None:
    mechanism, update = OneshotLaplace(0.1, 0.1, 1.0), np.ones(300)
    free = [mechanism.release(update, 20, release_generator()).values for _ in range(2)]
    seeded = [mechanism.release(update, 20, release_generator(7, 1, round_)).values for round_ in (2, 2, 3)]
    assert not np.array_equal(*free)
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(seeded[0], seeded[2])


@pytest.mark.parametrize("values", ["fresh", "same"])
def test_honest_uploads_stay_within_the_largest_norm_and_unclipped_ones_do_not(values: str) -> None:
    mechanism, rng = OneshotLaplace(0.01, 0.01, 1.0, values=values), release_generator(11)
    most = mechanism.largest_norm(100, 1000)
    update = np.full(1000, 0.5)
    assert all(np.abs(mechanism.release(update, 100, rng).values).sum() <= most for _ in range(300))
    loose = OneshotLaplace(0.01, 0.01, 500.0, values=values)
    assert np.abs(loose.release(update, 100, rng).values).sum() > most


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sigma_1": 0.0}, "sigma_1 must be finite and above 0"),
        ({"sigma_2": float("nan")}, "sigma_2 must be finite and above 0"),
        ({"bound": float("inf")}, "bound must be finite and above 0"),
        ({"step": 0.3}, "power of two"),
        ({"sigma_1": 2.0**-21}, "at least 8 steps"),
        ({"bound": 1e12}, "too fine"),
        ({"values": "none"}, "values must be one of fresh, same"),
    ],
)
def test_wrong_mechanisms_are_refused_by_name(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OneshotLaplace(**{"sigma_1": 0.1, "sigma_2": 0.1, "bound": 1.0, **fields})


def test_wrong_updates_are_refused_by_name() -> None:
    mechanism, rng = OneshotLaplace(0.1, 0.1, 1.0), release_generator(1)
    with pytest.raises(ValueError, match="NaN or infinity"):
        mechanism.release([1.0, float("nan")], 1, rng)
    with pytest.raises(ValueError, match=r"must be a vector"):
        mechanism.release(np.ones((2, 2)), 1, rng)
    with pytest.raises(ValueError, match="count must be at most"):
        mechanism.release(np.ones(3), 4, rng)
    with pytest.raises(ValueError, match="rise"):
        SparseUpdate(np.array([1, 1]), np.zeros(2, np.float32), 5)
    with pytest.raises(ValueError, match="rise"):
        SparseUpdate(np.array([5]), np.zeros(1, np.float32), 5)
    with pytest.raises(ValueError, match="NaN or infinity"):
        SparseUpdate(np.array([1]), np.array([np.inf], np.float32), 5)


@pytest.mark.parametrize(
    ("mechanism", "rounds"),
    [
        (OneshotLaplace(10.0, 10.0, 1.0, 2.0**-8), 50),
        (OneshotLaplace(40.0, 40.0, 1.0, 2.0**-8), 300),
        (OneshotLaplace(20.0, 5.0, 1.0, 2.0**-8), 20),
        (OneshotLaplace(1.0, 1.0, 1.0, 2.0**-8, "same"), 10),
        (OneshotLaplace(0.2, 0.2, 1.0, 2.0**-8, "same"), 3),
    ],
)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_composition_agrees_with_dp_accounting(mechanism: OneshotLaplace, rounds: int, delta: float) -> None:
    privacy_loss = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    theirs = None
    for shift, scale in mechanism_terms(mechanism):
        one = privacy_loss.from_discrete_laplace_mechanism(1 / scale, shift, value_discretization_interval=1e-3)
        theirs = one.self_compose(rounds) if theirs is None else theirs.compose(one.self_compose(rounds))
    terms = dict.fromkeys(mechanism_terms(mechanism), 0)
    for term in mechanism_terms(mechanism):
        terms[term] += rounds
    assert laplace_epsilon(terms, delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=2e-3)


def test_the_composition_is_the_least_of_its_bounds() -> None:
    mechanism = OneshotLaplace(0.5, 0.5, 1.0, 2.0**-8)
    assert composed_epsilon({mechanism: 4}, 1e-12) == pytest.approx(4 * mechanism.worst_case_epsilon)
    assert composed_epsilon({mechanism: 1}, 1e-6) == pytest.approx(mechanism.worst_case_epsilon, rel=1e-3)
    fine = OneshotLaplace(50.0, 50.0, 1.0, 2.0**-8)
    assert composed_epsilon({fine: 400}, 1e-6) < 0.4 * 400 * fine.worst_case_epsilon
    assert composed_epsilon({fine: 400, mechanism: 2}, 1e-6) > composed_epsilon({fine: 400}, 1e-6)
    huge = OneshotLaplace(0.001, 0.001, 100.0, 2.0**-22)
    assert composed_epsilon({huge: 300}, 1e-6) == pytest.approx(300 * huge.worst_case_epsilon, rel=1e-3)
    assert composed_epsilon({}, 1e-6) == 0.0
    with pytest.raises(ValueError, match="delta must lie strictly between"):
        composed_epsilon({fine: 1}, 0.0)


def test_a_split_change_is_never_worse_than_one_entry_that_takes_it_all() -> None:
    """What the domination of the scalar mechanism says, with the splits composed exactly."""
    whole_change = laplace_epsilon({(24, 8.0): 1}, 1e-3)
    for split in ((12, 12), (18, 6), (23, 1), (8, 8, 8)):
        terms: dict = {}
        for part in split:
            terms[(part, 8.0)] = terms.get((part, 8.0), 0) + 1
        assert laplace_epsilon(terms, 1e-3) <= whole_change + 1e-6
