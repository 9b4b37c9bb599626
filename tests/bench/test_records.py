"""Records, manifests and set names: what goes in comes out, and what is wrong is named with its file."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.records import ENVIRONMENT, make_manifest, make_record
from volta.bench.cell_metrics import TEST, EvalSet
from volta.bench.records import (
    MANIFEST_FILE,
    RECORD_FILE,
    BlasLibrary,
    Cell,
    CellRecord,
    Manifest,
    environment,
    instruction_sets,
    stopped_in_warmup,
)
from volta.core.checksummed import decode_object, encode_object
from volta.core.errors import InputError, StoreError
from volta.core.types import SplitDraw
from volta.networks.recipe import Budget, TrainingLog

CELL = Cell("digits", "fair", "volta", 1, "k" * 64)
CLIMBING = TrainingLog(max_epochs=100, patience=2, climb_epochs=10.0, val_losses=(0.1, 0.2, 0.3), seconds=4.5)
PATH = Path("runs/digits/cells/one/record.json")


def fields(record, **changes):
    """Return what the file of a record holds, with other values where there are ``changes``."""
    return decode_object(encode_object(RECORD_FILE, record), PATH, RECORD_FILE, dict[str, Any]) | changes


def read_record(value):
    return decode_object(encode_object(RECORD_FILE, value), PATH, RECORD_FILE, CellRecord)


@pytest.mark.parametrize(
    ("stored", "kind", "name", "severity"),
    [
        ("test", "test", "", None),
        ("test+T", "test", "", None),
        ("test+msp", "test", "", None),
        ("near:", "near", "", None),
        ("far:", "far", "", None),
        ("ood:digits_8_9", "ood", "digits_8_9", None),
        ("ood:blur-3", "ood", "blur-3", None),
        ("ood:a:b", "ood", "a:b", None),
        ("shift:blur-3", "shift", "blur", 3),
        ("shift:motion-blur-10", "shift", "motion-blur", 10),
        ("shift:rain", "shift", "rain", None),
        ("shift:rain-heavy", "shift", "rain-heavy", None),
        ("shift:-3", "shift", "-3", None),
        ("shift:fog-03", "shift", "fog-03", None),
        ("shift:fog-\N{ARABIC-INDIC DIGIT THREE}", "shift", "fog-\N{ARABIC-INDIC DIGIT THREE}", None),
    ],
)
def test_the_name_of_a_set_has_parts(stored, kind, name, severity):
    found = EvalSet(stored)
    assert (found, found.kind, found.name, found.severity) == (stored, kind, name, severity)
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.kind, again.name, again.severity) == (stored, kind, name, severity)


@pytest.mark.parametrize("stored", ["", "tests", "ood:", "shift:", "val", "test:x", "test+x", "near", "far:x"])
def test_other_names_are_refused(stored):
    with pytest.raises(InputError, match=r"names no set; expected test, test[+]T, test[+]msp, near:, far:, ood:NAME"):
        EvalSet(stored)


def test_a_record_comes_back_through_json():
    record = make_record(
        CELL,
        {"test": {"accuracy": 0.5, "ece": 0.25}, "ood:svhn": {"auroc": 0.75}, "shift:blur-3": {"accuracy": 0.125}},
        parameters={"k": 5, "names": ["a"]},
        budget=Budget(max_epochs=3),
        backbone="resnet18",
        near_ood=(EvalSet("ood:svhn"),),
        floored_rows={TEST: 2},
        notes=("a note",),
        trainings=(CLIMBING, TrainingLog(2, None, 0.2, (0.5, 0.25), 1.5)),
        split=SplitDraw(7, 2, 5),
        predictions="c" * 64,
    )
    assert read_record(record) == record
    assert record.test == {"accuracy": 0.5, "ece": 0.25}


def test_cells_whose_training_stopped_in_the_warm_up_are_counted():
    complete = TrainingLog(2, None, 0.2, (0.5, 0.25), 1.5)
    records = [make_record(CELL, trainings=logs) for logs in ((), (complete,), (complete, CLIMBING), (CLIMBING,))]
    assert stopped_in_warmup(records) == 2


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
    assert decode_object(encode_object(MANIFEST_FILE, manifest), PATH, MANIFEST_FILE, Manifest) == manifest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": {"task": "../x"}}, r"missing required field `protocol` - at `\$\.cell`"),
        ({"cell": asdict(CELL) | {"task": "../../x"}}, r"task is '\.\./\.\./x'; use up to 200 letters"),
        ({"cell": asdict(CELL) | {"protocol": ".."}}, r"protocol is '\.\.'"),
        ({"cell": asdict(CELL) | {"key": "a/b"}}, "key is 'a/b'"),
        ({"title": 3}, r"Expected `str`, got `int` - at `\$\.title`"),
        ({"threads": True}, r"Expected `int`, got `bool` - at `\$\.threads`"),
        ({"wall_s": None}, r"Expected `float`, got `null` - at `\$\.wall_s`"),
        ({"notes": [1]}, r"Expected `str`, got `int` - at `\$\.notes\[0\]`"),
        ({"notes": "one"}, r"Expected `array`, got `str` - at `\$\.notes`"),
        ({"rows": {"train": 1.5}}, r"Expected `int`, got `float` - at `\$\.rows\[\.\.\.\]`"),
        ({"metrics": {"test": {"ece": None}}}, "Expected `float`, got `null`"),
        ({"metrics": {"val": {}}}, "'val' names no set"),
        ({"metrics": []}, r"Expected `object`, got `array` - at `\$\.metrics`"),
        ({"budget": {"max_epochs": 0}}, r"max_epochs is 0.* - at `\$\.budget`"),
        ({"environment": {}}, r"missing required field `volta` - at `\$\.environment`"),
    ],
)
def test_a_bad_value_is_named_with_its_file_and_a_remedy(changes, message):
    with pytest.raises(StoreError, match=message) as error:
        read_record(fields(make_record(CELL), **changes))
    assert str(error.value).startswith(str(PATH))
    assert str(error.value).endswith("run volta bench once more to compute it")


def test_a_bad_manifest_says_that_cells_are_safe():
    data = encode_object(MANIFEST_FILE, {"commands": None})
    with pytest.raises(StoreError, match=r"does not hold a manifest of a run .*; finished cells are safe"):
        decode_object(data, PATH, MANIFEST_FILE, Manifest)


def test_records_need_no_torch():
    code = "import sys, volta.bench.records, volta.bench.store; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
