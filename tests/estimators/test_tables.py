"""Tables as they come, through the classifier."""

from __future__ import annotations

import numpy as np
import pytest

from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.data.frames import read_table
from volta.estimators.onnx_tables import feeds


def penguins(n_rows, seed=0):
    """Rows like those of the Palmer penguins: text, numbers, missing cells."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    islands = np.where(
        labels == 2, "Biscoe", np.where(labels == 1, "Dream", random.choice(["Torgersen", "Dream"], n_rows))
    )
    bills = random.normal(np.array([39.0, 49.0, 47.5])[labels], 3.0)
    bills[random.random(n_rows) < 0.02] = np.nan
    sexes = random.choice(["male", "female"], n_rows).astype(object)
    sexes[random.random(n_rows) < 0.03] = None
    table = {"island": islands, "bill": bills, "mass": random.normal(np.array([3700.0, 3733.0, 5076.0])[labels], 400.0)}
    return table | {"sex": sexes}, np.array(["Adelie", "Chinstrap", "Gentoo"], dtype=object)[labels]


@pytest.fixture(scope="module")
def classifier():
    return VoltaClassifier("linear").fit(*penguins(344))


def taken(table, rows):
    return {name: values[rows] for name, values in table.items()}


def test_a_mixed_table_is_fitted_decided_saved_and_loaded(classifier, tmp_path):
    new, labels = penguins(300, 1)
    assert classifier.n_features_in_ == 4
    assert classifier.feature_names_in_.tolist() == ["island", "bill", "mass", "sex"]
    assert classifier.score(new, labels) > 0.9
    assert (classifier.decide(new).action == 2).mean() < 0.1
    classifier.save(tmp_path / "a.safetensors")
    loaded = VoltaClassifier.load(tmp_path / "a.safetensors")
    assert loaded.schema_ == classifier.schema_
    assert np.array_equal(loaded.predict_proba(new), classifier.predict_proba(new))
    assert loaded.classes_.dtype == classifier.classes_.dtype == object


def test_a_card_is_written_from_python(classifier, tmp_path):
    classifier.card(tmp_path / "card.md")
    classifier.card(tmp_path / "card.html")
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert (
        "4: island (3 categories), bill (number, some missing), mass (number), sex (2 categories, some missing)" in text
    )
    assert "<html" in (tmp_path / "card.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "change", [{"island": "Atlantis"}, {"mass": None}, {"mass": np.inf}, {"bill": "long"}, {"sex": "unknown"}], ids=str
)
def test_cells_that_no_training_row_has_are_flagged_and_named(classifier, change):
    new, _ = penguins(50, 1)
    rows = [dict(zip(new, row, strict=True)) | change for row in zip(*new.values(), strict=True)]
    decisions = classifier.decide(rows)
    assert (decisions.action == 2).all()
    (name,) = change
    assert f"; column {name!r} is" in decisions[0].reason
    assert decisions.row_reasons()[0] == decisions[:1].to_array()["reason"][0] == decisions[0].reason
    with pytest.raises(InputError, match=rf"X row 0, column {name!r} is .*; training rows have"):
        classifier.decide(rows, errors="raise")


def test_unusual_cells_of_one_row_leave_the_others_alone(classifier):
    new, _ = penguins(6, 1)
    odd = new | {"island": new["island"].astype(object)}
    odd["island"][2] = "Atlantis"
    before, after = classifier.decide(new), classifier.decide(odd)
    same = [0, 1, 3, 4, 5]
    assert np.array_equal(before.pvalue[same], after.pvalue[same])
    assert [before[row].reason for row in same] == [after[row].reason for row in same]


def test_rows_that_are_not_finite_are_flagged_in_a_matrix_of_numbers():
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    rows = random.normal(size=(200, 3)) + labels[:, None]
    classifier = VoltaClassifier("linear").fit(rows, labels)
    odd = rows[:4].copy()
    odd[1, 2], odd[3, 0] = np.nan, -np.inf
    decisions = classifier.decide(odd)
    assert decisions[1].reason == (
        "conformal p-value at most 0.05; column 2 is nan; training rows have a finite number"
    )
    assert (decisions[3].action, decisions[3].probability, decisions[3].classes) == ("ood", 0.5, (0, 1))
    assert np.array_equal(decisions.pvalue[[0, 2]], classifier.decide(rows[:4]).pvalue[[0, 2]])
    with pytest.raises(InputError, match="X row 1 holds nan in column 2"):
        classifier.decide(odd, errors="raise")
    with pytest.raises(InputError, match="errors is 'skip'; pass flag or raise"):
        classifier.decide(odd, errors="skip")
    with pytest.raises(InputError, match="Input X contains NaN"):
        classifier.predict(odd)


def test_columns_of_numbers_are_taken_by_name_where_scikit_learn_does_not_forbid_it():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    frame = pandas.DataFrame(random.normal(size=(100, 3)), columns=list("abc"))
    classifier = VoltaClassifier("linear").fit(frame, (frame["a"] > 0).to_numpy())
    other = frame[["c", "a", "b"]].assign(z=0.0)
    wanted = classifier.decide(frame).pvalue
    assert np.array_equal(classifier.decide(other).pvalue, wanted)
    for row in (frame.iloc[4], frame.iloc[4].to_dict(), other.iloc[[4]]):
        assert classifier.decide(row).pvalue == wanted[4]
    with pytest.raises(ValueError, match="The feature names should match"):
        classifier.predict(other)


@pytest.mark.parametrize(
    "labels",
    [np.array([True, False], dtype=object), np.array([3, 5], dtype=object), np.array(["a", "b"], dtype=object)],
)
def test_labels_come_back_as_they_were_after_loading(labels, tmp_path):
    random = np.random.default_rng(0)
    places = np.arange(60) % 2
    rows = random.normal(size=(60, 2)) + 3.0 * places[:, None]
    classifier = VoltaClassifier("linear").fit(rows, labels[places])
    classifier.save(tmp_path / "a.safetensors")
    found = VoltaClassifier.load(tmp_path / "a.safetensors").predict(rows)
    assert found.dtype == classifier.predict(rows).dtype
    assert set(found.tolist()) == set(labels.tolist())
    with pytest.raises(InputError, match=r"y holds datetime64\[D\].*y.astype\(str\)"):
        VoltaClassifier("linear").fit(rows, np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[places])


# Over two seconds: a graph is exported, which takes torch that long.
def test_a_graph_takes_a_table_column_by_column(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    random = np.random.default_rng(3)

    def table(n_rows, seed):
        rows, labels = penguins(n_rows, seed)
        days = np.datetime64("1999-01-01T00") + random.integers(0, 24 * 20000, n_rows).astype("timedelta64[h]")
        cities = np.array([f"c{i}" for i in range(60)])[random.zipf(1.3, n_rows) % 60]
        return rows | {"seen": days, "city": cities, "label": random.random(n_rows) < 0.5}, labels

    classifier = VoltaClassifier("linear").fit(*table(150, 0))
    classifier.to_onnx(tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    names = [each.name for each in session.get_inputs()]
    assert names == ["island", "bill", "mass", "sex", "seen", "city", "label (column)"]
    new, _ = table(400, 1)
    new["island"] = np.where(np.arange(400) == 3, "Atlantis", new["island"])
    new["mass"][4], new["mass"][5] = np.nan, np.inf
    given = classifier.schema_.match(read_table(new))
    found = dict(
        zip([each.name for each in session.get_outputs()], session.run(None, dict(feeds(given, names))), strict=True)
    )
    decisions = classifier.decide(new)
    assert np.array_equal(found["decision"], decisions.action)
    assert found["decision"][3:6].tolist() == [2, 2, 2]
    np.testing.assert_allclose(found["probs"], classifier.predict_proba(new), atol=1e-6)


# slow: false alarms are a rate over many fits
@pytest.mark.slow
def test_flags_of_mixed_tables_are_false_as_often_as_asked():
    random, flagged = np.random.default_rng(0), []
    for draw in range(40):
        cities = [f"city {i}" for i in range(200)]
        shares = 1.0 / np.arange(1, 201)
        tables = []
        for n_rows in (200, 200):
            table, labels = penguins(n_rows, int(random.integers(2**31)))
            tables.append((table | {"city": random.choice(cities, n_rows, p=shares / shares.sum())}, labels))
        (train, labels), (new, _) = tables
        flagged.append(VoltaClassifier("linear", random_state=draw).fit(train, labels).is_ood(new, fpr=0.1).mean())
    assert np.mean(flagged) < 0.1 + 2 * np.std(flagged) / np.sqrt(len(flagged))
