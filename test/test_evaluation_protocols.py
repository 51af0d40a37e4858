"""Every protocol on a few drawn scenes with made-up networks: what is measured, missing and written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_networks import FakeNetworks, drawn_sample, fake_loaded

from uav_privacy_sc.evaluation import networks, samples, setting
from uav_privacy_sc.evaluation.evaluation import Evaluation, evaluate
from uav_privacy_sc.evaluation.execution import Execution
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.presets import PRESETS
from uav_privacy_sc.evaluation.protocols import MODULES, baseline, convergence, find_protocol, location, tradeoff
from uav_privacy_sc.evaluation.reproduction import document, main
from uav_privacy_sc.evaluation.result_tables import ResultTable
from uav_privacy_sc.evaluation.samples import Dataset, Sample, guessed_size, open_dataset
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate

TINY = replace(
    PRESETS["quick"],
    epsilons=(1.0, 100.0, 10_000.0),
    kappas=(1.12, 100.0),
    gradient_samples=0,
    draws=4,
    releases=2,
    track_frames=(1, 4),
    repeats=2,
)
NAMES = tuple(name for name in MODULES if name not in ("runtime", "matrix"))


def _setting(**changes: object) -> Setting:
    return replace(Setting("drawn", 3, 1, "hardened", TINY, FakeNetworks()), **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def _fakes() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(networks, "Loaded", fake_loaded)
    patch.setattr(setting, "open_dataset", _drawn)
    networks.networks_for.cache_clear()
    yield
    patch.undo()
    networks.networks_for.cache_clear()


def _drawn(spec: str, number: int, nets: object) -> Dataset:
    """Return drawn scenes: the last without people; of ``boxes`` only their layouts; else what there is."""
    if spec not in ("drawn", "boxes"):
        return open_dataset(spec, number, nets)  # type: ignore[arg-type]
    pictures = spec == "drawn"
    calls = (partial(drawn_sample, k, k + 1 < number, pictures) for k in range(number))
    return Dataset(spec, "pictures" if pictures else "boxes", calls, number)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluation]:
    folder = tmp_path_factory.mktemp("evaluation") / "out"
    return folder, evaluate(NAMES, _setting(), folder)


def _outcome(found: Evaluation, name: str):
    return next(item for item in found.outcomes if item.protocol.name == name)


def test_every_protocol_writes_its_measurements_tables_and_figures(whole) -> None:
    folder, found = whole
    assert [item.protocol.name for item in found.outcomes] == list(NAMES)
    for outcome in found.outcomes:
        assert (folder / f"measurements-{outcome.protocol.name}.csv").stat().st_size > 200
        assert outcome.tables and outcome.figures
        for table in outcome.tables:
            assert table.rows, table.name
            for suffix in ("csv", "tex", "md"):
                assert (folder / f"{table.name}.{suffix}").is_file()
        for figure in outcome.figures:
            assert (folder / f"{figure.name}.png").read_bytes()[:4] == b"\x89PNG"
            assert "<svg" in (folder / f"{figure.name}.svg").read_text()


def test_names_of_tables_and_figures_are_their_own(whole) -> None:
    _, found = whole
    for kind in ("tables", "figures"):
        names = [item.name for outcome in found.outcomes for item in getattr(outcome, kind)]
        assert len(names) == len(set(names))


def test_a_picture_without_people_is_missing_in_their_metrics_alone(whole) -> None:
    results = _outcome(whole[1], "tradeoff").results
    key = {"epsilon_v": 1.0, "attacker": "inverter"}
    assert len(results.values("ssim", "uniform", **key)) == 3
    assert len(results.values("ssim_sensitive", "uniform", **key)) == 2
    assert results.reason("ssim_sensitive", "uniform", **key) == "no pedestrian or people in the picture"


def test_the_eavesdropper_gets_less_with_less_budget_and_silence_is_the_floor(whole) -> None:
    results = _outcome(whole[1], "tradeoff").results

    def mean(mechanism: str, epsilon: float | None) -> float:
        return float(np.mean(list(results.values("ssim", mechanism, epsilon, attacker="inverter").values())))

    assert mean("none", None) > mean("uniform", 10_000.0) > mean("uniform", 100.0)
    cosine = [np.mean(list(results.values("feature_cosine", "uniform", e).values())) for e in TINY.epsilons]
    assert cosine == sorted(cosine) and cosine[-1] > 0.9
    assert np.mean(list(results.values("feature_cosine", "none").values())) == pytest.approx(1.0, abs=1e-6)


def test_mechanisms_meet_the_same_fade_and_noise_so_that_pairs_are_pairs(whole) -> None:
    results = _outcome(whole[1], "ablation").results
    same = [results.values("ssim", name, 1.0, attacker="inverter") for name in ("region_aware", "without descriptors")]
    assert same[0] == same[1]  # descriptors change the ground's mask alone
    location_free = results.values("feature_cosine", "uniform", 1.0)
    assert set(location_free) == set(results.values("feature_cosine", "region_aware", 1.0))


def test_equal_success_compares_where_both_give_the_attacker_the_same() -> None:
    from uav_privacy_sc.evaluation.measurement import Measurement, Results

    rows = []
    for sample, extra in (("a", 0.0), ("b", 0.02), ("c", -0.01)):
        for mechanism, level in (("none", 1.0), ("silence", 0.0)):
            rows.append(Measurement("t", mechanism, "ssim_sensitive", sample, 0, level + extra, attacker="inverter"))
        shifts = ((None, 0.0), (1.12, 1.0), (100.0, -9.0))
        for kappa, shift in shifts:
            curve = tradeoff.Curve("uniform" if kappa is None else "region_aware", kappa)
            for place, epsilon in enumerate((1.0, 10.0, 100.0, 1000.0)):
                where = {"epsilon_v": epsilon, "kappa_bg": curve.kappa_bg}
                leak = (place - shift) / 3 + extra  # region-aware leaks at epsilon what uniform does at a tenth of it
                useful = place / 3 + extra
                rows.append(
                    Measurement("t", curve.mechanism, "ssim_sensitive", sample, 0, leak, attacker="inverter", **where)
                )
                for condition in (tradeoff.WITH, tradeoff.WITHOUT):
                    rows.append(
                        Measurement(
                            "t", curve.mechanism, "category_accuracy", sample, 0, useful, condition=condition, **where
                        )
                    )
    preset = replace(TINY, epsilons=(1.0, 10.0, 100.0, 1000.0), kappas=(1.12, 100.0))
    found = tradeoff.equal_success(Results(rows), _setting(preset=preset), "inverter")
    assert {item.curve.kappa_bg for item in found} == {1.12}  # that of 100 has no level in common with uniform noise
    first = found[0]
    assert first.epsilon_uniform is not None and first.epsilon == pytest.approx(10 * first.epsilon_uniform, rel=1e-6)
    test = first.tests[tradeoff.WITH]
    assert not isinstance(test, Missing) and test.difference.mean == pytest.approx(1 / 3)
    assert test.p is None  # the same in every sample


def test_hidden_people_are_gone_where_they_were_found_and_visible_where_not(whole) -> None:
    sample = drawn_sample(0)
    assert sample.image is not None
    hidden = baseline.hide(sample.image, sample.detected, baseline.blackened)
    changed = (hidden != sample.image).any(axis=2)
    assert changed.any() and (hidden[changed] == 0).all()
    results = _outcome(whole[1], "baseline").results
    assert set(results.values("exposed", "JPEG, people blacked out").values()) == {0.5}  # one of two was detected
    assert set(results.values("exposed", "JPEG, nothing hidden").values()) == {1.0}


def test_jpegs_keep_to_their_bits_and_use_them() -> None:
    image = drawn_sample(0).image
    assert image is not None
    for bits in (20_000, 60_000, 10_000_000):
        data, quality, scale = baseline.jpeg_within(image, bits)
        assert 8 * len(data) <= bits and 1 <= quality <= 95 and 0 < scale <= 1
        assert baseline.decoded(data, image.shape).shape == image.shape
    assert quality == 95
    with pytest.raises(ValueError, match="no JPEG"):
        baseline.jpeg_within(image, 100)


def test_jpegs_have_the_channel_uses_of_the_features_and_no_bit_more_than_capacity(whole) -> None:
    results = _outcome(whole[1], "baseline").results
    uses = [results.values("channel_uses", name) for name in results.distinct("mechanism")]
    assert len(uses) == 10 and all(each == uses[0] for each in uses) and set(uses[0].values()) == {16 * 11 * 20 / 2}
    assert baseline.carried_bits(100, 3.0) == 200
    table = _outcome(whole[1], "baseline").tables[0]
    assert table.heads[1:3] == ("channel uses", "kbit") and any("analog" in note for note in table.notes)


def test_a_jpeg_that_does_not_fit_is_not_sent_and_its_picture_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "carried_bits", lambda symbols, snr: 10)
    rows = [row for row in baseline.measure(drawn_sample(0), _setting()) if row.mechanism.startswith("JPEG")]
    assert {row.value for row in rows if row.metric == "arrives"} == {0.0}
    assert {row.reason for row in rows if row.metric == "ssim"} == {baseline.NO_JPEG}


def test_recall_counts_overlap_of_sensitive_boxes_alone() -> None:
    truth = drawn_sample(0).truth
    assert truth is not None
    assert baseline.recall(truth, truth) == 1.0 and baseline.recall(truth[:1], truth) == 0.0
    assert isinstance(baseline.recall(truth, truth[:1]), Missing)


def test_measured_location_errors_are_the_expected_ones() -> None:
    centers = np.random.default_rng(0).random((40_000, 2))
    for branch in location.BRANCHES:
        found = location.displacement(centers, branch, 3.0, np.random.default_rng(1))
        assert found == pytest.approx(location.expected(branch, 3.0), rel=0.02)  # clipping shortens Laplace a little
    assert location.budget_for("grid", 0.0248) == pytest.approx(10.3, abs=0.1)
    assert location.budget_for("grid", 0.01) is None  # below what quantization costs


def test_bcd_is_as_good_as_an_exhaustive_search(whole) -> None:
    results = _outcome(whole[1], "convergence").results
    for scenario in results.distinct("condition"):
        gaps = results.values("gap", "bcd", condition=scenario).values()
        assert gaps and max(gaps) < 1e-3
    assert convergence.ITERATIONS == 8


def test_boxes_alone_do_for_scenarios_and_location_and_the_rest_says_so(tmp_path: Path) -> None:
    found = evaluate(("tradeoff", "scenarios", "location"), _setting(dataset="boxes"), tmp_path)
    assert "needs pictures" in found.skipped["tradeoff"]
    results = _outcome(found, "scenarios").results
    assert results.values("location_error", "bcd", condition="surveillance")
    assert not results.values("ssim", "bcd", condition="surveillance")
    assert results.reason("ssim", "bcd", condition="surveillance") == "the dataset has boxes only"
    with pytest.raises(ValueError, match="needs pictures"):
        evaluate(("tradeoff",), _setting(dataset="boxes"), tmp_path / "alone")


def test_an_empty_scene_is_missing_and_no_zero(tmp_path: Path) -> None:
    empty = Sample("empty", truth=drawn_sample(0).truth[:0])  # type: ignore[index]
    rows = location.measure(empty, _setting())
    assert rows and all(row.value is None and row.reason == "no object in the sample" for row in rows)


def test_a_second_run_takes_what_is_there_and_another_seed_is_refused(tmp_path: Path, monkeypatch) -> None:
    evaluate(("location",), _setting(), tmp_path)
    calls: list[str] = []
    real = location.measure
    monkeypatch.setattr(location, "measure", lambda sample, made: calls.append(sample.name) or real(sample, made))
    evaluate(("location",), _setting(), tmp_path)
    assert not calls
    with pytest.raises(ValueError, match="holds results made with base_seed 0 instead of 1; give another folder"):
        evaluate(("location",), _setting(base_seed=1), tmp_path)
    assert not calls


def test_the_manifest_says_what_a_repetition_needs(whole) -> None:
    folder, found = whole
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest == json.loads(json.dumps(found.manifest))
    assert manifest["setting"]["base_seed"] == 0 and manifest["setting"]["profile"] == "hardened"
    assert set(manifest["weights_sha256"]) == {"detector.pt", "codec.pt", "inverter.pt"}
    assert manifest["dataset"] == {
        "name": "drawn", "kind": "pictures", "samples": 3, "with_people": 2, "notes": []
    }  # fmt: skip
    assert manifest["packages"]["numpy"] and manifest["protocols"]["tradeoff"]["measurements"] > 100


def test_protocols_run_one_after_the_other_share_a_manifest(tmp_path: Path) -> None:
    def after(name: str, **changes: object) -> set[str]:
        evaluate((name,), _setting(**changes), tmp_path)
        return set(json.loads((tmp_path / "manifest.json").read_text())["protocols"])

    assert after("location", samples=1) == {"location"}
    assert after("convergence", samples=1) == {"location", "convergence"}


def test_the_scale_stands_in_every_table_of_a_scaled_protocol(whole) -> None:
    _, found = whole
    for name in ("tradeoff", "attackers", "baseline", "ablation"):
        assert any("preset quick" in note for note in _outcome(found, name).tables[0].notes), name


def test_the_document_has_every_published_number_and_a_sentence_for_each(whole, tmp_path: Path) -> None:
    from uav_privacy_sc.evaluation.published import PUBLISHED

    folder, _ = whole
    assert main([str(folder), str(tmp_path / "reproduction.md")]) == 0
    text = (tmp_path / "reproduction.md").read_text()
    numbers = text[text.index("## Number by number") : text.index("## What the published equations")]
    assert numbers.count("\n| ") == len(PUBLISHED) + 2
    assert "protocol runtime was not run" in numbers and "When to pick which" in text
    assert document(folder) == text


def test_one_command_measures_and_writes_the_document(tmp_path: Path, monkeypatch, capsys) -> None:
    from uav_privacy_sc.commands import evaluate as command

    def carry_out(order: command.EvaluationOrder) -> int:
        assert (order.protocol, order.samples, order.seeds, order.preset) == ("all", 20, 1, "quick")
        evaluate(("location",), _setting(samples=1), order.out)
        return 0

    monkeypatch.setattr(command, "carry_out", carry_out)
    assert main(["--measure", str(tmp_path / "out"), str(tmp_path / "r.md")]) == 0
    assert "--measure out/reproduction docs/reproduction.md" in (tmp_path / "r.md").read_text()
    monkeypatch.setattr(command, "carry_out", lambda order: 1)
    assert main(["--measure", str(tmp_path / "out"), str(tmp_path / "none.md")]) == 1
    assert not (tmp_path / "none.md").exists() and main(["--measur", "out"]) == 2


def test_no_document_from_a_folder_that_is_none(tmp_path: Path, capsys) -> None:
    assert main([str(tmp_path)]) == 2 and main([]) == 2
    assert "no folder of an evaluation" in capsys.readouterr().err


def test_a_folder_with_fewer_pictures_than_asked_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    import cv2

    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number in range(3):
        cv2.imwrite(str(pictures / f"{number}.png"), drawn_sample(number).image)  # type: ignore[arg-type]
    (pictures / "3.png").write_bytes(b"no picture")
    found = evaluate(("ablation",), _setting(dataset=str(pictures), samples=9), tmp_path / "out")
    assert any("4 pictures, fewer than the 9 asked for" in note for note in found.notes)
    results = found.outcomes[0].results
    assert len(results.values("ssim", "uniform", 1.0, attacker="inverter")) == 3
    assert results.reason("category_accuracy", "uniform", 1.0) == "nobody annotated the picture"


def test_annotations_alone_get_the_smallest_size_of_visdrone_that_holds_them(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "a.txt").write_text("950,400,300,200,1,4,0,0\n1,2,0,5,1,4,0,0\nno numbers\n")
    dataset = samples.open_dataset(str(tmp_path), 5, FakeNetworks())
    sample = next(dataset.draws)()
    assert sum(dataset.oddities.values()) == 2 and dataset.oddities["zero-size box"] == 1
    assert dataset.kind == "boxes" and "fewer than the 5" in dataset.notes[1]
    assert sample.truth is not None and sample.truth["w"][0] == pytest.approx(300 / 1344)
    rows = np.zeros(1, [("left", float), ("top", float), ("width", float), ("height", float)])
    rows["left"], rows["width"], rows["height"] = 3000, 500, 10
    assert guessed_size(rows) == (3500, 10)


@pytest.mark.parametrize("spec", ["/nowhere/at/all", "synthetic:seven"])
def test_a_dataset_that_is_none_is_one_line(spec: str) -> None:
    with pytest.raises(ValueError, match="dataset") as error:
        samples.open_dataset(spec, 2, FakeNetworks())
    assert "\n" not in str(error.value)


def test_every_protocol_is_known_by_its_name_and_can_be_sent_to_a_process() -> None:
    import pickle

    assert [find_protocol(name).name for name in MODULES] == list(MODULES)
    with pytest.raises(ValueError, match="choose one of tradeoff"):
        find_protocol("magic")
    for name in MODULES[:5] + ("location",):
        units = list(find_protocol(name).units(_setting(), [drawn_sample(0)]))  # type: ignore[arg-type]
        assert len(units) == 1 and pickle.loads(pickle.dumps(units[0])).key == "drawn 0"


def test_latex_holds_no_letter_that_it_would_take_for_a_command() -> None:
    table = ResultTable("t", "50 % of κ_bg & more", ("a_b", "±"), (("x#1", "3 ± 1"),), ("note_1",))
    text = table.latex()
    assert r"50 \% of $\kappa$\_bg \& more" in text and r"x\#1 & 3 $\pm$ 1 \\" in text and r"note\_1" in text
    with pytest.raises(ValueError, match="a row of 1 cells"):
        ResultTable("t", "t", ("a", "b"), (("x",),))


def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    store = {jobs: evaluate(("location",), _setting(), tmp_path / str(jobs), Execution(jobs=jobs)) for jobs in (1, 2)}
    first, second = (found.outcomes[0].results.measurements for found in store.values())
    assert first == second
    assert isinstance(estimate(item.value for item in first if item.value is not None), Estimate)
