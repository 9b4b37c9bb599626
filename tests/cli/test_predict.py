"""``volta predict``, ``decide``, ``explain`` and ``export``: files in, files out, the same numbers as in Python."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

from tests.bench.running import volta
from tests.cli.conftest import NAMES, run, write_csv
from volta import LabelledOutputs, Outputs, PostHocClassifier, VoltaClassifier
from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.data import tables
from volta.data.tables import new_table, open_table, read_columns


@pytest.fixture(scope="module")
def classifier(shell):
    loaded = VoltaClassifier.load(shell.model)
    del loaded.feature_names_in_
    return loaded


def read(path, *numbers):
    table = open_table(path)
    by_row = [name for name in table.names if name != "classes"]
    return read_columns(table, {name: "number" if name in numbers else "any" for name in by_row})


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_predictions_are_those_of_python(shell, classifier, tmp_path, ending):
    out = tmp_path / f"out{ending}"
    done = run("predict", shell.model, shell.new, "--id", "tree", "--out", out)
    assert done.stdout == f"60 rows: {out}\n", done.output
    assert done.stderr == ""
    expected = classifier.predict_full(shell.new_rows)
    probabilities = ("p_ash", "p_birch", "p_oak")
    found = read(out, "uncertainty", *probabilities)
    assert found["tree"].tolist() == [f"t{place}" for place in range(60)]
    assert found["class"].tolist() == classifier.predict(shell.new_rows).tolist()
    assert np.array_equal(found["uncertainty"], expected.uncertainty)
    probs = found["probs"] if ending == ".npz" else np.column_stack([found[name] for name in probabilities])
    assert np.array_equal(probs, expected.probs)


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_rows_are_read_by_name_from_every_kind_of_file(shell, classifier, tmp_path, ending):
    path = tmp_path / f"in{ending}"
    columns = {name: shell.new_rows[:, place] for place, name in enumerate(NAMES)}
    given = {"x": shell.new_rows} if ending == ".npz" else dict(reversed(columns.items()))
    with new_table(path) as writer:
        writer.write(given | {"species": shell.new_labels, "tree": np.arange(60)})
    done = run("predict", shell.model, path, "--id", "tree", "--label", "species", "--out", tmp_path / "out.parquet")
    assert done.exit_code == 0, done.output
    found = read(tmp_path / "out.parquet", "p_ash")
    assert list(found)[:2] == ["tree", "label"]
    assert np.array_equal(found["p_ash"], classifier.predict_proba(shell.new_rows)[:, 0])
    assert found["label"].tolist() == shell.new_labels.tolist()


def test_chunks_of_a_file_are_predicted_as_its_whole(shell, classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(tables.TableFile.chunks, "__defaults__", (7,))
    done = run("predict", shell.model, shell.new, "--id", "tree", "--out", tmp_path / "out.npz")
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "out.npz") as found:
        assert np.allclose(found["probs"], classifier.predict_proba(shell.new_rows), rtol=1e-12, atol=0.0)
        assert found["tree"].tolist() == [f"t{place}" for place in range(60)]


def test_decisions_are_those_of_python(shell, classifier, tmp_path):
    done = run("decide", shell.model, shell.new, "--id", "tree", "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert re.search(r"60 samples \(\d+ answer, \d+ abstain, \d+ ood\)", done.stdout)
    expected = classifier.decide(shell.new_rows)
    found = read(tmp_path / "out.csv", "probability", "uncertainty", "pvalue")
    assert list(found) == ["tree", "action", "label", "probability", "uncertainty", "pvalue", "set", "reason"]
    records = expected.to_array()
    for name in ("action", "label", "probability", "uncertainty", "pvalue", "reason"):
        assert found[name].tolist() == records[name].tolist()
    assert found["set"].tolist() == ["|".join(classes) for classes in records["set"]]
    assert found["action"][5] == "ood"


def test_decisions_with_other_promises(shell, classifier, tmp_path):
    options = ("--id", "tree", "--alpha", 0.3, "--fpr", 0.2, "--coverage", 0.5)
    done = run("decide", shell.model, shell.new, *options, "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    kept = classifier.policy_settings_
    classifier.fit_policy(coverage=0.5)
    records = classifier.decide(shell.new_rows, alpha=0.3, fpr=0.2).to_array()
    classifier.fit_policy(**kept)
    found = read(tmp_path / "out.csv")
    assert found["action"].tolist() == records["action"].tolist()
    assert found["set"].tolist() == ["|".join(classes) for classes in records["set"]]


def test_a_bound_over_the_whole_file(shell, classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(tables.TableFile.chunks, "__defaults__", (7,))
    rows = np.concatenate([shell.new_rows, shell.new_rows[:20] * 1000.0])
    path = write_csv(tmp_path / "in.csv", rows, None)
    done = run("decide", shell.model, path, "--id", "tree", "--fdr", 0.1, "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    found = read(tmp_path / "out.csv")
    flags = classifier.is_ood(rows, fdr=0.1)
    assert ((found["action"] == "ood") == flags).all()
    assert (found["action"] == "ood").sum() >= 20
    assert "p-value selected at FDR 0.1 over this file" in found["reason"][5]


def test_too_few_calibration_rows_are_a_warning_once(shell, tmp_path, monkeypatch):
    monkeypatch.setattr(tables.TableFile.chunks, "__defaults__", (7,))
    done = run("decide", shell.model, shell.new, "--id", "tree", "--fpr", 0.001, "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("warning: 600 calibration samples are too few for fpr = 0.001, which needs 999") == 1


def test_explanations_as_text_and_as_json(shell, classifier):
    done = run("explain", shell.model, shell.new, "--id", "tree", "--rows", "2,5")
    assert done.exit_code == 0, done.output
    two, five = (str(found) for found in VoltaClassifier.load(shell.model).explain(_named(shell, [2, 5])))
    assert done.stdout == f"row 2, tree t2: {two}\nrow 5, tree t5: {five}\n"
    assert re.search("length is .*: training rows have", done.stdout)
    done = run("explain", shell.model, shell.new, "--id", "tree", "--rows", "5", "--json", "--most", 1)
    value = json.loads(done.stdout)
    assert (value["row"], value["tree"]) == (5, "t5")
    assert len(value["classes"]) == len(value["rows"]) == len(value["columns"]) == 1
    assert len(value["rows"][0]["values"]) == 3
    assert run("explain", shell.model, shell.new, "--id", "tree", "--rows", "0,500").stdout == ""
    first = run("explain", shell.model, shell.new, "--id", "tree")
    assert len(re.findall(r"^row \d", first.stdout, re.MULTILINE)) == 10


def _named(shell, places):
    return pytest.importorskip("pandas").DataFrame(shell.new_rows[places], columns=list(NAMES))


# Over two seconds: the exporter of PyTorch takes as long for a small graph.
def test_the_graph_gives_the_same_probabilities(shell, classifier, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    done = run("export", shell.model, "--out", out)
    assert done.exit_code == 0, done.output
    assert f"graph: {out}" in done.stdout
    session = runtime.InferenceSession(out)
    (name,) = (given.name for given in session.get_inputs())
    rows = shell.new_rows[:5]
    found = dict(zip([o.name for o in session.get_outputs()], session.run(None, {name: rows}), strict=True))
    assert np.allclose(found["probs"], classifier.predict_proba(rows), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda text: text, (), r"has columns that the model does not know: tree; carry them through with --id"),
        (lambda text: text.replace("width", "breadth"), ("--id", "tree"), "lacks columns .* fitted on: width"),
        (lambda text: text.replace("t3,", "t3,x"), ("--id", "tree"), r"row 3 \(line 5\), column 'length' is 'x"),
        (
            lambda text: re.sub("(t4),[^,]*,", r"\1,,", text),
            ("--id", "tree"),
            r"row 4 \(line 6\), column 'length' is empty",
        ),
        (
            lambda text: re.sub("(t4),[^,]*,", r"\1,NaN,", text),
            ("--id", "tree"),
            r"row 4 \(line 6\), .*'length' is missing",
        ),
        (
            lambda text: text,
            ("--id", "tree", "--id", "width"),
            "--id is 'width', which is a feature of the model; leave that --id out",
        ),
        (
            lambda text: text,
            ("--id", "tree", "--label", "width"),
            "--label is 'width', which is a feature of the model",
        ),
        (
            lambda text: text.replace("tree", "class"),
            ("--id", "class"),
            "--id is 'class', which is a column of the result",
        ),
    ],
)
def test_a_bad_table_is_one_sentence_and_leaves_nothing(shell, tmp_path, change, options, message):
    path = tmp_path / "in.csv"
    path.write_text(change(shell.new.read_text()))
    done = run("predict", shell.model, path, *options, "--out", tmp_path / "out.csv")
    assert isinstance(done.exception, InputError), done.output
    assert re.search(message, str(done.exception))
    assert [item.name for item in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("command", ["predict", "decide"])
def test_what_is_read_is_never_written(shell, tmp_path, command):
    copy = tmp_path / "rows.csv"
    copy.write_bytes(shell.new.read_bytes())
    done = run(command, shell.model, copy, "--out", copy, "--force")
    assert isinstance(done.exception, InputError)
    assert "which this command reads; name another file" in str(done.exception)
    assert copy.read_bytes() == shell.new.read_bytes()


def test_confidence_needs_what_it_is_about(shell, tmp_path):
    done = run("decide", shell.model, shell.new, "--out", tmp_path / "out.csv", "--confidence", 0.9)
    assert "--confidence requires --max-error or --coverage" in str(done.exception)


def test_bad_arguments(shell, tmp_path):
    out = tmp_path / "out.csv"
    for words, kind, message in (
        (
            ("predict", tmp_path / "no", shell.new, "--out", out),
            MissingDataError,
            "MODEL is .*no, which does not exist",
        ),
        (("predict", shell.new, shell.new, "--out", out), VoltaError, "is not a saved VOLTA method"),
        (("predict", shell.model, tmp_path / "no.csv", "--out", out), MissingDataError, "no.csv does not exist"),
        (("predict", shell.model, shell.new, "--out", tmp_path / "out.xls"), InputError, "has to end in one of .csv"),
        (
            ("predict", shell.model, shell.new, "--out", shell.train),
            InputError,
            "exists; name another file, or pass --force",
        ),
        (("decide", shell.model, shell.new, "--fpr", 0.1, "--fdr", 0.1, "--out", out), InputError, "pass one of them"),
        (("decide", shell.model, shell.new, "--alpha", 1.5, "--out", out), InputError, "--alpha is 1.5"),
        (("explain", shell.model, shell.new, "--id", "tree", "--rows", "99"), InputError, "row 99, but .* has 60 rows"),
        (("explain", shell.model, shell.new, "--rows", "a"), InputError, "--rows is 'a'"),
        (("explain", shell.model, shell.new, "--rows", "9-5"), InputError, "'9-5', a decreasing range; write 5-9"),
        (("export", shell.model, "--out", out), InputError, "has to end in .onnx"),
    ):
        done = run(*words)
        assert isinstance(done.exception, kind), words
        assert re.search(message, str(done.exception))
    assert list(tmp_path.iterdir()) == []


def test_widths_are_checked_where_there_are_no_names(shell, tmp_path):
    np.savez(tmp_path / "in.npz", x=shell.new_rows[:, :2])
    done = run("predict", shell.model, tmp_path / "in.npz", "--out", tmp_path / "out.csv")
    assert isinstance(done.exception, InputError)
    assert "has 2 features, the model 3" in str(done.exception)


def test_errors_reach_the_shell_as_a_line_and_exit_code_2(shell, tmp_path):
    done = volta("predict", shell.model, shell.new, "--out", tmp_path / "a.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_warnings_are_left_as_they_were(shell, tmp_path):
    before = warnings.filters[:]
    run("predict", shell.model, shell.new, "--id", "tree", "--out", tmp_path / "out.csv")
    assert warnings.filters == before


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_predictions_go_into_evaluate_as_they_are(shell, classifier, tmp_path, ending):
    from volta.bench.store import RunStore

    labelled = write_csv(tmp_path / "test.csv", shell.new_rows, shell.new_labels)
    out = tmp_path / f"trees-1{ending}"
    done = run("predict", shell.model, labelled, "--id", "tree", "--label", "species", "--out", out)
    assert done.exit_code == 0, done.output
    done = run("evaluate", out, "--out", tmp_path / "run", "--no-report")
    assert done.exit_code == 0, done.exception
    (record,) = RunStore(tmp_path / "run").records()
    assert record.test["accuracy"] == np.mean(classifier.predict(shell.new_rows) == shell.new_labels)


@pytest.mark.parametrize("command", ["predict", "card"])
def test_a_classifier_of_something_else_is_refused_in_the_shells_words(shell, tmp_path, command):
    logits = np.random.default_rng(0).normal(size=(90, 3))
    other = PostHocClassifier("energy").fit(cal=LabelledOutputs(Outputs(logits), np.arange(90) % 3))
    other.save(tmp_path / "other")
    done = run(
        command, tmp_path / "other", *((shell.new,) if command == "predict" else ()), "--out", tmp_path / "a.csv"
    )
    assert str(done.exception).endswith(
        "holds a classifier of a network's outputs; load it with PostHocClassifier.load in Python: the volta command "
        "takes classifiers of features alone"
    )
