"""Shifted sets beside stored features: what stands, what is extracted, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.bench.running import volta
from tests.features.conftest import network_file
from volta.bench.records import RunConfig
from volta.bench.runner import make_plan
from volta.bench.store import RunStore
from volta.cli.data import extract as extract_command
from volta.core.errors import InputError
from volta.data import CORRUPTION_NAMES, LoadOptions, find_task, pixel_sets, store_features, store_shifts
from volta.data.importing import import_task
from volta.features.backbones.load import load_backbone
from volta.features.extract import (
    Agreement,
    Extraction,
    NotExtractedError,
    extract_missing,
    extract_sets,
    extract_task,
    load_task,
    match_stored,
)

pytest.importorskip("onnx", reason="needs volta-uq[onnx]")
pytest.importorskip("onnxruntime", reason="needs volta-uq[onnx]")
N_TEST = 6


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return a folder with images of two classes imported as ``colours``, and features of them by one of two networks."""
    base = tmp_path_factory.mktemp("beside")
    random = np.random.default_rng(0)
    for split, size in (("train", 6), ("test", N_TEST)):
        for label, shade in (("dark", 0), ("light", 120)):
            (base / "photos" / split / label).mkdir(parents=True)
            for index in range(size):
                pixels = random.integers(shade, shade + 120, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(base / "photos" / split / label / f"{index}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOLTA_CACHE", str(base / "cache"))
        import_task(base / "photos", "colours", root=base / "data")
        options = LoadOptions(base / "data")
        network = load_backbone(network_file(base / "made.onnx", 0))
        found = extract_sets(pixel_sets("colours", options).inputs(), network)
        # Stored in half precision: features that are extracted now differ a little from these.
        store_features("colours", {name: each.array.astype(np.float16) for name, each in found.items()}, options)
    network_file(base / "other.onnx", 1)
    return base


@pytest.fixture(autouse=True)
def _cache(monkeypatch, places):
    monkeypatch.setenv("VOLTA_CACHE", str(places / "cache"))


def asked(places, **changes):
    return LoadOptions(places / "data", (2,), "generated", **changes)


def asked_run(places, options):
    """Return what a run has that loads with ``options``, its features by the network that made the stored ones."""
    chosen = {name: getattr(options, name) for name in ("severities", "shifts")}
    return {"data": options.root, "backbone": by(places, "made").backbone, **chosen}


def by(places, name):
    return Extraction(str(places / f"{name}.onnx"))


def test_stored_features_stand_and_only_missing_shifts_are_extracted(places):
    extracted = []

    def on_set(name):
        extracted.append(name)

    options = asked(places, limit_test=4)
    stored = find_task("colours", places / "data").load("features", options)
    task = load_task(
        find_task("colours", options.root), "features", options, replace(by(places, "made"), on_set=on_set)
    )
    assert extracted == [f"shift:{name}-2" for name in CORRUPTION_NAMES]
    assert task.fit.fingerprint == stored.fit.fingerprint
    assert np.array_equal(task.test.inputs, stored.test.inputs)
    assert {len(part) for part in task.shifts.values()} == {len(task.test)} == {4}
    assert np.array_equal(task.shifts["fog-2"].labels, task.test.labels)
    assert "made.onnx: features of 4 test images differ" in task.source


def test_rows_of_a_limited_set_are_those_of_the_whole(places):
    whole, part = pixel_sets("colours", asked(places)), pixel_sets("colours", asked(places, limit_test=4))
    rows = [
        int(np.flatnonzero((whole.parts["test"].inputs == image).all(axis=(1, 2, 3)))[0])
        for image in part.parts["test"].inputs
    ]
    for name in ("gaussian_noise-2", "snow-2", "elastic_transform-2"):
        assert np.array_equal(part.shifts[name].inputs, whole.shifts[name].inputs[rows])
    assert {len(one.inputs) for one in pixel_sets("colours", asked(places, limit_test=99)).shifts.values()} == {12}


def test_another_backbone_does_not_extend_stored_features(places):
    options = asked(places, limit_test=4)
    found = match_stored(find_task("colours", options.root), options, by(places, "other"))
    assert not found.agreement.holds
    with pytest.raises(InputError, match=r"so .*other.* with these weights did not make them \(0.01 is allowed\)"):
        extract_missing(found, by(places, "other"))
    # Asked for by name it makes all features, as it would without stored ones.
    with pytest.raises(NotExtractedError):
        load_task(
            find_task("colours", places / "data"),
            "features",
            LoadOptions(places / "data"),
            replace(by(places, "other"), map_shards=None),
        )
    assert "other test rows than the images" in str(Agreement(0, float("inf")))


def test_the_command_saves_shifts_of_a_part_of_the_rows(places, tmp_path, capsys):
    arguments = ("colours", "--data", places / "data", "--backbone", places / "made.onnx", "--severities", 2)
    done = volta("extract", *arguments, "--corruptions", "--only", "shifts", "--limit-test", 4, "--save")
    file = places / "data" / "features" / "colours-shifts-4.npz"
    try:
        assert done.returncode == 0, done.stderr
        assert "19 of 19 corrupted test sets are missing" in done.stderr
        assert f"saved: {file}" in done.stdout
        stored = find_task("colours", places / "data").load("features", asked(places, limit_test=4))
        assert len(stored.shifts) == 19
        assert np.array_equal(stored.shifts["fog-2"].labels, stored.test.labels)
        assert not find_task("colours", places / "data").load("features", asked(places)).shifts
        # Stored whole, a set serves its parts too.
        split = find_task("colours", places / "data").load("features", asked(places)).test
        whole = store_shifts("colours", {"fog-2": split}, asked(places))
        again = find_task("colours", places / "data").load("features", asked(places, limit_test=4))
        assert np.array_equal(again.shifts["fog-2"].inputs, again.test.inputs)
        assert np.array_equal(again.shifts["frost-2"].inputs, stored.shifts["frost-2"].inputs)
        whole.unlink()
    finally:
        file.unlink(missing_ok=True)
    # What a plan says is missing is what the command would extract.
    config = RunConfig(("colours",), ("softmax",), **asked_run(places, asked(places)))
    with pytest.raises(NotExtractedError, match=r"made\.onnx --only shifts"):
        make_plan(config, RunStore(tmp_path / "run"))
    for settings, reason in (
        ({"limit_test": 4, "save": True}, "part of the test set as all of it"),
        ({"only": "a"}, "--only is"),
    ):
        with pytest.raises(InputError, match=reason):
            extract_command("colours", data=places / "data", **settings)


def test_a_plan_says_that_stored_features_are_unchecked_not_that_they_are_missing(
    places, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "cache"))
    for options, ends in (
        (LoadOptions(places / "data"), "the run does that first$"),
        (asked(places), "--severities 2 "),
    ):
        config = RunConfig(("colours",), ("softmax",), **asked_run(places, options))
        with pytest.raises(NotExtractedError, match=ends) as error:
            make_plan(config, RunStore(tmp_path / "run"))
        told = str(error.value)
        assert "whether made.onnx made the stored features is not checked yet, on 12 test images" in told
        assert "lack features" not in told


def test_features_of_another_backbone_do_not_stand_beside_earlier_shifts(places, tmp_path):
    import_task(places / "photos", "colours", root=tmp_path)
    options = LoadOptions(tmp_path)
    made, other = (
        {
            name: each.array
            for name, each in extract_task(find_task("colours", options.root), options, by(places, one)).items()
        }
        for one in ("made", "other")
    )
    store_features("colours", made, options)
    test = find_task("colours", tmp_path).load("features", options).test
    shifts = store_shifts("colours", {"fog-2": test}, options)
    store_features("colours", {name: rows.astype(np.float16) for name, rows in made.items()}, options)
    assert shifts.is_file()
    store_features("colours", other, options)
    assert not shifts.exists()


class Stopped:
    """Rows during whose writing the command is stopped."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __array__(self, dtype=None, copy=None):
        raise KeyboardInterrupt


def test_storing_that_is_stopped_leaves_no_sets_of_two_backbones(places, tmp_path):
    import_task(places / "photos", "colours", root=tmp_path, ood={"far": places / "photos"})
    options = LoadOptions(tmp_path)
    made, other = (
        {
            name: each.array
            for name, each in extract_task(find_task("colours", options.root), options, by(places, one)).items()
        }
        for one in ("made", "other")
    )
    _, ood = store_features("colours", made, options)
    with pytest.raises(KeyboardInterrupt):
        store_features("colours", {**other, "ood:far": Stopped(other["ood:far"])}, options)
    assert not ood.exists()
    store_features("colours", other, options)
    task = find_task("colours", tmp_path).load("features", options)
    np.testing.assert_allclose(task.ood["far"].inputs, other["ood:far"], rtol=1e-5)


def test_a_named_backbone_keeps_ood_sets_that_stored_features_lack(places, tmp_path):
    import_task(places / "photos", "colours", root=tmp_path, ood={"far": places / "photos"})
    without = LoadOptions(tmp_path, ood=())
    found = extract_task(find_task("colours", without.root), without, by(places, "made"))
    store_features("colours", {name: each.array for name, each in found.items()}, without)
    task = load_task(find_task("colours", tmp_path), "features", LoadOptions(tmp_path), by(places, "made"))
    assert list(task.ood) == ["far"]


def test_corruptions_made_in_one_way_do_not_pass_for_those_of_the_other(places, tmp_path):
    import_task(places / "photos", "colours", root=tmp_path)
    options = LoadOptions(tmp_path, (2,))
    made = {
        name: each.array
        for name, each in extract_task(find_task("colours", options.root), options, by(places, "made")).items()
    }
    store_features("colours", made, options)
    test = find_task("colours", tmp_path).load("features", options).test
    path = store_shifts("colours", {"fog-2": test, "frost-2": test}, options, "official")
    store_shifts("colours", {"frost-2": test, "snow-2": test}, options, "generated")
    store_shifts("colours", {"brightness-2": test}, options)

    def names(asked_for):
        return sorted(find_task("colours", tmp_path).load("features", replace(options, shifts=asked_for)).shifts)

    assert names("auto") == ["brightness-2", "fog-2", "frost-2", "snow-2"]
    assert names("official") == ["brightness-2", "fog-2"]
    assert names("generated") == ["brightness-2", "frost-2", "snow-2"]
    # Features of images say by themselves how those were made; the sets of the other kind are extracted anew.
    task = load_task(
        find_task("colours", options.root), "features", replace(options, shifts="generated"), by(places, "made")
    )
    assert len(task.shifts) == 19
    assert np.array_equal(task.shifts["snow-2"].inputs, test.inputs)
    assert not np.array_equal(task.shifts["fog-2"].inputs, test.inputs)
    generated = replace(options, shifts="generated")
    all_made = {
        name: each.array
        for name, each in extract_task(find_task("colours", generated.root), generated, by(places, "made")).items()
    }
    store_features("colours", all_made, generated)
    with np.load(path) as stored:
        assert {str(stored[name]) for name in stored.files if name.endswith("_o")} == {"generated"}
    assert names("official") == []
