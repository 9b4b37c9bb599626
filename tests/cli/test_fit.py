"""``volta fit``: what it reads, what it says, and that bad input is one sentence."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

from tests.cli.conftest import CLASSES, NAMES, make_rows, run, write_csv
from volta import VoltaClassifier
from volta.cli.model import summary
from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.core.files import hash_file
from volta.data.tables import new_table


def test_the_model_is_that_of_the_same_rows_in_python(shell):
    rows, labels = make_rows(600, 0)
    own = VoltaClassifier(max_epochs=8, keep_rows=True).fit(rows, labels)
    loaded = VoltaClassifier.load(shell.model)
    assert loaded.feature_names_in_.tolist() == list(NAMES)
    assert loaded.classes_.tolist() == CLASSES.tolist()
    assert np.array_equal(loaded.predict_full(own_frame(shell)).probs, own.predict_proba(shell.new_rows))
    assert loaded.policy_.max_error == 0.2
    assert loaded.policy_ == own.fit_policy(0.2)


def own_frame(shell):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(shell.new_rows, columns=list(NAMES))


def test_the_model_remembers_what_it_was_made_from(shell):
    record = VoltaClassifier.load(shell.model).fit_record_
    assert record.files == {"train.csv": hash_file(shell.train)}
    assert record.label == "species"
    assert [record.n_rows(part) for part in ("train", "cal")] == [600, 600]
    assert record.n_folds == 5
    assert record.class_counts["cal"] == (200, 200, 200)
    assert len(set(record.data_hash.values())) == 1


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_other_files_give_the_same_model(shell, tmp_path, ending):
    rows, labels = make_rows(600, 0)
    given = {"x": rows, "y": labels} if ending == ".npz" else {**dict(zip(NAMES, rows.T, strict=True)), "y": labels}
    with new_table(tmp_path / f"train{ending}") as writer:
        writer.write(given)
    label = () if ending == ".npz" else ("--label", "y")
    done = run("fit", tmp_path / f"train{ending}", *label, "--max-epochs", 8, "--out", tmp_path / "model", "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    found = VoltaClassifier.load(tmp_path / "model")
    assert hasattr(found, "feature_names_in_") == (ending == ".parquet")
    known = VoltaClassifier.load(shell.model)
    assert np.array_equal(found.calibration_.confidence, known.calibration_.confidence)


def test_own_rows_to_steer_and_calibrate_by(shell, tmp_path):
    steer, cal = (write_csv(tmp_path / f"{name}.csv", *make_rows(90, seed)) for name, seed in (("eval", 7), ("cal", 8)))
    options = ("--label", "species", "--id", "tree", "--max-epochs", 2, "--eval", steer, "--cal", cal)
    done = run("fit", shell.train, *options, "--out", tmp_path / "model", "--coverage", 0.8)
    assert done.exit_code == 0, done.output
    record = VoltaClassifier.load(tmp_path / "model").fit_record_
    assert [record.n_rows(part) for part in ("train", "val", "cal")] == [600, 90, 90]
    assert set(record.files) == {"train.csv", "eval.csv", "cal.csv"}
    assert record.n_folds == 1
    assert "600 training, 90 validation, 90 calibration" in done.stdout


@pytest.mark.parametrize("option", ["--eval", "train"])
def test_calibration_rows_that_the_model_learned_from_are_refused(shell, tmp_path, option):
    cal = shell.train
    options = ["--label", "species", "--id", "tree", "--max-epochs", 2]
    if option == "--eval":
        cal = write_csv(tmp_path / "cal.csv", *make_rows(90, 7))
        options += ["--eval", cal]
    done = run("fit", shell.train, *options, "--cal", cal, "--out", tmp_path / "model")
    assert isinstance(done.exception, InputError)
    assert "--cal has" in str(done.exception)
    assert "among those that the model learns from" in str(done.exception)


def test_confidence_counts_for_the_usual_coverage_too(shell, tmp_path):
    options = ("--label", "species", "--id", "tree", "--method", "linear", "--out", tmp_path / "model")
    done = run("fit", shell.train, *options, "--confidence", 0.5)
    assert done.exit_code == 0, done.output
    policy = VoltaClassifier.load(tmp_path / "model").policy_
    assert policy.confidence == 0.5
    assert policy.coverage == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-epochs", 0), "--max-epochs is 0"),
        (("--scale", "big"), "--scale is 'big'"),
        (("--encoder", "large"), "--encoder is 'large'"),
    ],
)
def test_errors_name_the_option(shell, tmp_path, options, message):
    given = ("--label", "species", "--id", "tree", *options)
    done = run("fit", shell.train, *given, "--out", tmp_path / "model")
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith(message)


def test_a_place_that_cannot_be_written_is_named_before_any_work(shell, tmp_path):
    (tmp_path / "file").write_text("")
    for out, message in (
        (tmp_path, "which is a folder; name a file in it"),
        (tmp_path / "file" / "deep" / "model", "is a file, not a folder"),
        (shell.train, "which this command reads"),
    ):
        done = run("fit", shell.train, "--label", "species", "--out", out, "--force")
        assert isinstance(done.exception, InputError)
        assert message in str(done.exception)
    assert shell.train.read_text().startswith("tree")


def test_a_row_index_among_the_columns_warns(tmp_path):
    rows, labels = make_rows(60, 3)
    with new_table(tmp_path / "counted.csv") as writer:
        writer.write({"id": np.arange(7, 67), **dict(zip(NAMES, rows.T, strict=True)), "y": labels})
    options = ("--label", "y", "--method", "linear", "--out", tmp_path / "model")
    told = run("fit", tmp_path / "counted.csv", *options)
    assert "warning: Column 'id' looks like a row index; exclude it with --id id." in told.stderr
    silent = run("fit", tmp_path / "counted.csv", *options, "--id", "id", "--force")
    assert "row index" not in silent.stderr


def test_classes_that_differ_in_blanks_only_are_refused(tmp_path):
    lines = [f"{row / 7},{['cat', 'dog', ' dog'][row % 3]}" for row in range(60)]
    (tmp_path / "blanks.csv").write_text("\n".join(["x,y", *lines]), encoding="utf-8")
    done = run("fit", tmp_path / "blanks.csv", "--label", "y", "--out", tmp_path / "model")
    assert "column 'y' has the labels ' dog' and 'dog', which differ in blanks only" in str(done.exception)


def test_of_two_arrays_that_may_be_labels_none_is_guessed(tmp_path):
    np.savez(tmp_path / "two.npz", x=np.zeros((30, 2)), y=np.arange(30) % 2, label=np.arange(30) % 3)
    done = run("fit", tmp_path / "two.npz", "--out", tmp_path / "model")
    assert "has several arrays that may be labels: y, label; name one with --label" in str(done.exception)
    done = run("fit", tmp_path / "two.npz", "--id", "label", "--method", "linear", "--out", tmp_path / "model")
    assert "that may be labels" not in done.output + str(done.exception)


def test_features_of_one_number_a_row_are_named(tmp_path):
    np.savez(tmp_path / "thin.npz", x=np.arange(30.0), y=np.arange(30) % 2)
    done = run("fit", tmp_path / "thin.npz", "--out", tmp_path / "model")
    assert "has one number a row in 'x'; save its features as (n, d)" in str(done.exception)


def test_text_among_the_features_names_the_option_and_decimal_commas_are_told(shell, tmp_path):
    done = run("fit", shell.train, "--label", "species", "--out", tmp_path / "model")
    assert "column 'tree' holds free text or identifiers (600 different values in 600 cells" in str(done.exception)
    assert "or name columns that are no features with --id" in str(done.exception)
    (tmp_path / "comma.csv").write_text("a;b;label\n1,29;2;x\n3,1;4;y\n")
    done = run("fit", tmp_path / "comma.csv", "--label", "label", "--out", tmp_path / "model")
    assert "write numbers with a decimal point" in str(done.exception)


def test_the_summary_says_that_few_rows_train_and_steer(shell):
    lines = summary(VoltaClassifier.load(shell.model))
    assert lines[0].endswith("samples: 600, each held out of one of 5 fits")


def test_the_help_is_grouped():
    text = run("fit", "--help").stdout
    for panel in ("Input", "Model", "Abstention policy", "Output"):
        assert panel in text
    assert "Information:" in run("--help").stdout


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (("--label", "spezies"), InputError, "--label is 'spezies', .* did you mean 'species'"),
        ((), InputError, "--label is missing; name the column of .*: tree, length"),
        (("--label", "species"), InputError, "column 'tree' holds free text or identifiers"),
        (("--label", "species", "--id", "trees"), InputError, "--id is 'trees', .* did you mean 'tree'"),
        (("--label", "species", "--method", "voltta"), InputError, "there is no method 'voltta'"),
        (("--label", "species", "--id", "tree", "--encoder", "audio"), InputError, "encoder is 'audio'"),
        (("--label", "species", "--id", "tree", "--scale", "max"), InputError, "scale is 'max'"),
        (("--label", "species", "--max-error", "2"), InputError, "--max-error is 2.0; expected a number"),
        (("--label", "species", "--max-error", ".1", "--coverage", ".9"), InputError, "pass one of them"),
        (
            ("--label", "length", "--id", "tree", "--id", "species"),
            InputError,
            "Unknown label type|fewer than 2 rows of 600 of 600 classes",
        ),
        (("--label", "species", "--id", "tree", "--cal", "gone.csv"), MissingDataError, "gone.csv does not exist"),
    ],
)
def test_bad_input_is_one_sentence(shell, tmp_path, options, error, message):
    done = run("fit", shell.train, *options, "--out", tmp_path / "model")
    assert isinstance(done.exception, error)
    assert isinstance(done.exception, VoltaError)
    assert re.search(message, str(done.exception))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_model_is_kept_unless_forced(shell):
    before = shell.model.read_bytes()
    done = run("fit", shell.train, "--label", "species", "--out", shell.model)
    assert "exists; name another file, or pass --force" in str(done.exception)
    assert shell.model.read_bytes() == before


def test_a_method_of_the_working_folder_is_found_and_refused_before_training(shell, tmp_path, monkeypatch):
    text = "from dataclasses import dataclass\nfrom volta.methods.softmax import Softmax\n\n@dataclass\nclass Mine(Softmax): ..."
    (tmp_path / "found_here.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    done = run("fit", shell.train, "--label", "species", "--method", "found_here:Mine", "--out", "model")
    assert "Mine, which METHODS does not list; only the package's own methods can be saved" in str(done.exception)
    assert "epoch" not in done.stderr
    assert not (tmp_path / "model").exists()


def mixed_table(path, n_rows, seed):
    """Write a CSV with text, Booleans, dates and missing cells; return the classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=n_rows)
    lines = ["island,mass,tagged,seen,species"]
    for label in labels.tolist():
        island = ("Biscoe", "Dream")[label if random.random() < 0.9 else 1 - label]
        mass = "NA" if random.random() < 0.1 else f"{random.normal(3700 + 900 * label, 300):.0f}"
        tagged, day = bool(random.random() < 0.5), 1 + int(random.integers(28))
        lines.append(f"{island},{mass},{tagged},2024-{1 + int(random.integers(12)):02}-{day:02},{('a', 'b')[label]}")
    path.write_text("\n".join(lines))
    return path


def test_a_table_as_it_comes(tmp_path):
    train, new = mixed_table(tmp_path / "train.csv", 200, 0), mixed_table(tmp_path / "new.csv", 30, 1)
    model, out = tmp_path / "model", tmp_path / "out.csv"
    done = run("fit", train, "--label", "species", "--method", "linear", "--out", model)
    assert done.exit_code == 0, done.output
    schema = VoltaClassifier.load(model).schema_
    assert [column.kind for column in schema.columns] == ["category", "number", "boolean", "date"]
    rows = [{"island": "Atlantis", "mass": 3700, "tagged": True, "seen": "2024-05-05"}]
    (tmp_path / "new.json").write_text(json.dumps(rows))
    done = run("decide", model, tmp_path / "new.json", "--out", out)
    assert "(0 answer, 0 abstain, 1 ood)" in done.stdout
    assert "column 'island' is 'Atlantis'; training rows have one of" in out.read_text()
    done = run("decide", model, tmp_path / "new.json", "--out", out, "--force", "--errors", "raise")
    assert "X row 0, column 'island' is 'Atlantis'" in str(done.exception)
    assert "--errors is 'skip'" in str(run("decide", model, new, "--out", out, "--force", "--errors", "skip").exception)
    assert "island is 'Atlantis', unseen value" in run("explain", model, tmp_path / "new.json").stdout
    done = run("predict", model, new, "--label", "species", "--out", out, "--force")
    assert done.exit_code == 0, done.output
    assert run("card", model, "--data", new).exit_code == 0
    (tmp_path / "short.csv").write_text("island,mass,seen\nDream,1,2024-01-01\n")
    assert "lacks columns that the model was fitted on: tagged" in str(
        run("predict", model, tmp_path / "short.csv", "--out", out, "--force").exception
    )


def test_an_empty_cell_of_a_model_of_numbers_is_flagged(shell, tmp_path):
    lines = shell.new.read_text().splitlines()
    lines[3] = re.sub("(t2),[^,]*,", r"\1,,", lines[3])
    (tmp_path / "new.csv").write_text("\n".join(lines))
    done = run("decide", shell.model, tmp_path / "new.csv", "--id", "tree", "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    third = (tmp_path / "out.csv").read_text().splitlines()[3]
    assert "ood" in third
    assert "column 'length' is nan; training rows have a finite number" in third
