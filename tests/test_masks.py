"""Masked arrays, wherever arrays come in: NumPy's functions would read what the mask hides as if it counted."""

from __future__ import annotations

import numpy as np
import pytest

import volta
from volta import InputError, LabelledOutputs, Outputs, PostHocClassifier, Task, VoltaClassifier
from volta.decisions import benjamini_hochberg
from volta.estimators.images import as_images

_RNG = np.random.default_rng(0)
_LABELS = np.arange(60) % 3
_ROWS = _RNG.normal(size=(60, 4)) + np.eye(4)[_LABELS]
_PROBS = _RNG.dirichlet(np.ones(3), 60)


def masked(values):
    hidden = np.zeros(np.shape(values), dtype=bool)
    hidden.flat[1] = True
    return np.ma.array(values, mask=hidden)


@pytest.fixture(scope="module")
def classifier():
    return VoltaClassifier("linear").fit(_ROWS, _LABELS)


@pytest.fixture(scope="module")
def post_hoc():
    return PostHocClassifier().fit(cal=LabelledOutputs(Outputs(_ROWS[:, :3]), _LABELS))


_NEW = VoltaClassifier("linear")


@pytest.mark.parametrize(
    "call",
    [
        lambda *_: _NEW.fit(masked(_ROWS), _LABELS),
        lambda *_: _NEW.fit(_ROWS, masked(_LABELS)),
        lambda *_: _NEW.fit(_ROWS, _LABELS, sample_weight=masked(np.ones(60))),
        lambda *_: _NEW.fit(_ROWS, _LABELS, cal_set=(masked(_ROWS), _LABELS)),
        lambda *_: _NEW.fit(_ROWS, _LABELS, eval_set=(_ROWS, masked(_LABELS))),
        lambda fitted, _: fitted.predict_proba(masked(_ROWS)),
        lambda _, fitted: fitted.predict_proba(masked(_ROWS[:, :3])),
        lambda *_: Outputs(masked(_ROWS)),
        lambda *_: LabelledOutputs(Outputs(_ROWS), masked(_LABELS)),
        lambda *_: volta.evaluate(masked(_PROBS), _LABELS),
        lambda *_: volta.evaluate(_PROBS, masked(_LABELS)),
        lambda *_: volta.evaluate(_PROBS, _LABELS, uncertainty=masked(_PROBS[:, 0])),
        lambda *_: Task.from_arrays((masked(_ROWS), _LABELS)),
        lambda *_: Task.from_arrays((_ROWS, masked(_LABELS))),
        lambda *_: volta.metrics.report(masked(_PROBS), _LABELS, _PROBS[:, 0]),
        lambda *_: benjamini_hochberg(masked(_PROBS[:, 0])),
        lambda *_: as_images(masked(np.zeros((2, 3, 8, 8), np.uint8))),
    ],
)
def test_masked_entries_are_refused(call, classifier, post_hoc):
    with pytest.raises(InputError, match="is a masked array with 1 masked entries; drop or fill them"):
        call(classifier, post_hoc)
