from __future__ import annotations

import numpy as np
import pytest

from tests.estimators.test_face import draw, quick
from volta import VoltaClassifier
from volta.core.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick(max_epochs=30, keep_rows=True, calibration="split").fit(*draw(300))


def test_the_nearest_classes_are_the_likeliest_of_volta(fitted):
    rows = draw(20, 3)[0]
    for found, probs, label in zip(fitted.explain(rows), fitted.predict_proba(rows), fitted.predict(rows), strict=True):
        assert found.label == label == found.classes[0].label
        assert found.probability == pytest.approx(probs.max())
        assert [near.label for near in found.classes] == np.argsort(-probs).tolist()
        assert all(-1.001 <= near.similarity <= 1.001 for near in found.classes)


def test_columns_out_of_range_are_named_in_the_users_units():
    pandas = pytest.importorskip("pandas")
    rows, labels = draw(300)
    frame = pandas.DataFrame(rows * [1, 100, 1, 1] + [0, 5000, 0, 0], columns=["age", "pay", "x", "y"])
    classifier = quick().fit(frame, labels)
    new = frame.iloc[:1].assign(pay=90_000.0)
    (found,) = classifier.explain(new)
    assert (found.columns[0].name, found.columns[0].reason) == ("pay", "out of range")
    assert found.columns[0].value == 90_000.0
    assert frame["pay"].quantile(0.9) < found.columns[0].high <= frame["pay"].max()
    assert "pay is 90000, out of range: training rows have" in str(found)
    assert found.rows is None


def test_alike_training_rows_are_shown_where_they_are_kept(fitted, tmp_path):
    rows, labels = draw(300)
    index = int(fitted.reference_.kept.index[7])
    (found,) = fitted.explain(rows[[index]])
    assert len(found.rows) == 3
    assert found.rows[0].similarity == pytest.approx(1.0, abs=1e-5)
    alike = next(row for row in found.rows if row.index == index)
    assert alike.label == labels[index]
    assert np.array_equal(alike.values, rows[index])
    assert "like training row" in str(found)
    fitted.save(tmp_path / "a.safetensors")
    (again,) = VoltaClassifier.load(tmp_path / "a.safetensors").explain(rows[[index]])
    assert [row.index for row in again.rows] == [row.index for row in found.rows]
    assert str(again) == str(found)


@pytest.mark.parametrize("method", ["softmax", "ensemble(n_members=2)", "linear", "hyperbolic"])
def test_methods_without_prototypes_compare_with_the_classes_mean_directions(method):
    classifier = quick(method, max_epochs=20).fit(*draw(300))
    rows, labels = draw(60, 3)
    nearest = [found.classes[0].label for found in classifier.explain(rows)]
    assert (np.array(nearest) == labels).mean() > 0.6


def test_how_many_can_be_chosen(fitted):
    assert len(fitted.explain(draw(1)[0], most=1)[0].classes) == 1
    with pytest.raises(InputError, match="most is 0"):
        fitted.explain(draw(1)[0], most=0)
