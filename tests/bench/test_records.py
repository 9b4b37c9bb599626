"""Records, manifests and set names: what goes in comes out, and what is wrong is named with its file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records import ENVIRONMENT, make_manifest, make_record
from volta.bench.cell_metrics import TEST, EvalSet
from volta.bench.keys import Cell
from volta.bench.records import (
    MANIFEST_FILE,
    RECORD_FILE,
    BlasLibrary,
    CellRecord,
    Manifest,
    environment,
    instruction_sets,
    stopped_in_climb,
)
from volta.core.checksummed import JsonFields
from volta.core.errors import InputError, StoreError
from volta.core.types import SplitDraw
from volta.networks.recipe import Budget, TrainingLog

CELL = Cell("digits", "fair", "volta", 1, "k" * 64)
CLIMBING = TrainingLog(max_epochs=100, patience=2, climb_epochs=10.0, val_losses=(0.1, 0.2, 0.3), seconds=4.5)
PATH = Path("runs/digits/cells/one/record.json")


def read_record(value):
    return CellRecord.from_json(JsonFields.of(value, str(PATH), RECORD_FILE.remedy))


@pytest.mark.parametrize(
    ("stored", "eval_set"),
    [
        ("test", EvalSet("test")),
        ("test+T", EvalSet("test", variant="T")),
        ("test+msp", EvalSet("test", variant="msp")),
        ("near:", EvalSet("near")),
        ("far:", EvalSet("far")),
        ("ood:digits_8_9", EvalSet("ood", "digits_8_9")),
        ("ood:blur-3", EvalSet("ood", "blur-3")),
        ("ood:a:b", EvalSet("ood", "a:b")),
        ("shift:blur-3", EvalSet("shift", "blur", 3)),
        ("shift:motion-blur-10", EvalSet("shift", "motion-blur", 10)),
        ("shift:rain", EvalSet("shift", "rain")),
        ("shift:rain-heavy", EvalSet("shift", "rain-heavy")),
        ("shift:-3", EvalSet("shift", "-3")),
        ("shift:fog-03", EvalSet("shift", "fog-03")),
        ("shift:fog-\N{ARABIC-INDIC DIGIT THREE}", EvalSet("shift", "fog-\N{ARABIC-INDIC DIGIT THREE}")),
    ],
)
def test_set_names_are_read_and_written_back(stored, eval_set):
    assert EvalSet.parse(stored) == eval_set
    assert str(eval_set) == stored
    assert len({eval_set, EvalSet.parse(stored)}) == 1


@pytest.mark.parametrize("stored", ["", "tests", "ood:", "shift:", "val", "test:x", "test+x", "near", "far:x"])
def test_other_names_are_refused(stored):
    with pytest.raises(InputError, match=r"names no set; expected test, test[+]T, test[+]msp, near:, far:, ood:NAME"):
        EvalSet.parse(stored)


def test_a_record_comes_back_through_json():
    record = make_record(
        CELL,
        {"test": {"accuracy": 0.5, "ece": 0.25}, "ood:svhn": {"auroc": 0.75}, "shift:blur-3": {"accuracy": 0.125}},
        parameters={"k": 5, "names": ["a"]},
        budget=Budget(max_epochs=3),
        backbone="resnet18",
        near_ood=(EvalSet("ood", "svhn"),),
        floored_rows={TEST: 2},
        notes=("a note",),
        trainings=(CLIMBING, TrainingLog(2, None, 0.2, (0.5, 0.25), 1.5)),
        split=SplitDraw(7, 2, 5),
        predictions="c" * 64,
    )
    assert read_record(json.loads(json.dumps(record.to_json()))) == record
    assert record.test == {"accuracy": 0.5, "ece": 0.25}


def test_a_record_tells_how_its_networks_were_trained():
    value = make_record(CELL, trainings=(CLIMBING,)).to_json()
    (told,) = value["trainings"]
    assert (told["epochs"], told["best_epoch"], told["max_epochs"]) == (3, 1, 100)
    assert told["marks"] == ["stopped early", "stopped in the climb"]
    older = {name: part for name, part in value.items() if name not in ("trainings", "split")}
    assert read_record(older) == make_record(CELL)
    complete = TrainingLog(2, None, 0.2, (0.5, 0.25), 1.5)
    records = [make_record(CELL, trainings=logs) for logs in ((), (complete,), (complete, CLIMBING), (CLIMBING,))]
    assert stopped_in_climb(records) == 2


def test_a_record_of_a_version_without_instruction_sets_is_read():
    older = ENVIRONMENT.to_json()
    del older["cpu_capability"], older["blas"]
    record = read_record(make_record(CELL).to_json() | {"environment": older})
    assert record.environment == replace(ENVIRONMENT, cpu_capability=None, blas=())
    assert record.environment.instruction_set == ""


def test_instruction_sets_are_counted():
    wide = replace(ENVIRONMENT, cpu_capability="AVX512", blas=(BlasLibrary("openblas", "0.3.27", "SkylakeX"),))
    other_blas = replace(ENVIRONMENT, blas=(BlasLibrary("mkl", None, None),))
    unknown = replace(ENVIRONMENT, cpu_capability=None, blas=())
    records = [make_record(CELL, environment=one) for one in (ENVIRONMENT, wide, other_blas, wide, unknown)]
    assert instruction_sets(records) == {
        "AVX2, openblas 0.3.27 Haswell": 1,
        "AVX512, openblas 0.3.27 SkylakeX": 2,
        "AVX2, mkl": 1,
    }
    assert instruction_sets([make_record(CELL)] * 2) == {"AVX2, openblas 0.3.27 Haswell": 2}


def test_the_instruction_set_is_what_the_libraries_use():
    import torch

    assert environment().cpu_capability == torch.backends.cpu.get_cpu_capability()
    done = subprocess.run(
        [sys.executable, "-c", "from volta.bench.records import environment; print(environment().cpu_capability)"],
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "DEFAULT"
    libraries = environment().blas
    assert {library.name for library in libraries} & {"openblas", "mkl", "blis", "flexiblas", "accelerate"}
    assert len(set(libraries)) == len(libraries)


def test_a_manifest_comes_back_through_json():
    manifest = make_manifest([CELL], Budget(limit_test=4))
    assert Manifest.from_json(JsonFields.of(json.loads(json.dumps(manifest.to_json())), str(PATH), "")) == manifest


def test_a_null_metric_is_absent():
    value = make_record(CELL, {"test": {"ece": None, "nll": 0.2}}).to_json()
    assert read_record(value).metrics == {TEST: {"nll": 0.2}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads": 10**30}, "threads is 1000000000000000000000000000000, expected a whole number"),
        ({"cell": {"task": "../x"}}, "cell: protocol is missing"),
        ({"cell": CELL.to_json() | {"task": "../../x"}}, r"cell: task is '\.\./\.\./x'; use up to 200 letters"),
        ({"cell": CELL.to_json() | {"protocol": ".."}}, r"cell: protocol is '\.\.'"),
        ({"cell": CELL.to_json() | {"key": "a/b"}}, "cell: key is 'a/b'"),
        ({"title": 3}, "title is 3, expected a text"),
        ({"threads": True}, "threads is True, expected a whole number"),
        ({"wall_s": None}, "wall_s is None, expected a finite number"),
        ({"notes": [1]}, r"notes is \[1\], expected a list of texts"),
        ({"notes": "one"}, "notes is 'one', expected a list"),
        ({"rows": {"train": 1.5}}, "rows: train is 1.5, expected a whole number"),
        ({"metrics": {"test": {"ece": float("inf")}}}, "metrics: test: ece is inf, expected a finite number"),
        ({"metrics": {"val": {}}}, "metrics: 'val' names no set"),
        ({"metrics": []}, r"metrics is \[\], expected an object"),
        ({"cell": {"task": "digits"}}, "cell: protocol is missing, expected a text"),
        ({"budget": {"max_hours": 3}}, "budget has 'max_hours', which this volta does not know"),
        ({"budget": {"max_epochs": 0}}, "budget: max_epochs is 0"),
        ({"environment": {}}, "environment: packages is None, expected an object"),
    ],
)
def test_a_bad_value_is_named_with_its_file_and_a_remedy(change, message):
    with pytest.raises(StoreError, match=message) as error:
        read_record(make_record(CELL).to_json() | change)
    assert str(error.value).startswith(str(PATH))
    assert str(error.value).endswith("run volta bench again to compute it anew")


def test_a_bad_manifest_says_that_cells_are_safe():
    value = make_manifest([CELL]).to_json() | {"commands": None}
    with pytest.raises(StoreError, match=r"commands is None, expected a list; finished cells are safe"):
        Manifest.from_json(JsonFields.of(value, str(PATH), MANIFEST_FILE.remedy))


def test_records_need_no_torch():
    code = "import sys, volta.bench.records, volta.bench.store; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
