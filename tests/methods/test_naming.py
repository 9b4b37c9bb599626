"""One text for one method: parameters are read, checked, written back, and refused with a reason."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from volta.bench.records import Fingerprints, make_cell
from volta.core.errors import InputError
from volta.methods import METHODS, find_method, name_of
from volta.methods.knn import Knn
from volta.methods.registry import make_method
from volta.methods.softmax import Softmax
from volta.methods.volta import Volta
from volta.networks.outputs import LabelledOutputs, Outputs
from volta.networks.recipe import Budget

NO_CODE = Fingerprints("", "", "")


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("knn", "knn", "kNN"),
        (" knn ( k = 10 ) ", "knn(k=10)", "kNN (k = 10)"),
        ("knn(k=50)", "knn", "kNN"),
        ("volta(encoder=deep)", "volta(encoder='deep')", "VOLTA (encoder = deep)"),
        ("volta(margin=1, encoder='deep')", None, None),
        ("volta.methods.knn:Knn(k=7)", "knn(k=7)", "kNN (k = 7)"),
    ],
)
def test_names_are_read_and_written_one_way(text, name, title):
    found = find_method(text)
    assert find_method(found.name).name == found.name == name_of(found.method)
    assert find_method(found.name).method == found.method
    if name is not None:
        assert (found.name, found.title) == (name, title)


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_has_its_plain_name(name):
    assert name_of(METHODS[name]()) == name


def test_a_whole_number_may_stand_for_a_float():
    assert find_method("volta(margin=1)").name == "volta(margin=1.0)"


def test_a_second_volta_is_compared_and_is_not_ours():
    assert find_method("volta").origin == "volta"
    assert find_method("volta(encoder=deep)").origin == "extra"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("temprature", "did you mean temperature"),
        ("knn(kk=1)", "knn: there is no parameter 'kk'; did you mean k?"),
        ("knn(k='ten')", "knn: k is 'ten'; pass a int, as its default 50 is"),
        ("knn(10)", "parameters that cannot be read"),
        ("knn(k=" + "-" * 990 + "1)", "parameters that cannot be read|k is"),
        ("knn(k=1" + "+1" * 50_000 + ")", "has 100,008 letters; a name has 1,000 at most"),
        ("knn(k=__import__('os'))", "parameters that cannot be read"),
        ("knn(k=10", "cannot be read"),
        ("volta-full(margin=1)", "is a row of the ablation, without parameters"),
        ("volta.methods.knn:kth_distance", "is no method; name a dataclass that extends volta.Method"),
    ],
)
def test_what_is_no_method_is_refused(text, said):
    with pytest.raises(InputError, match=said.replace("?", r"\?").replace("(", r"\(").replace(")", r"\)")):
        find_method(text)


def test_methods_that_no_other_process_could_make_are_refused(monkeypatch):
    @dataclass
    class Local(Softmax):
        title = "local"

    with pytest.raises(InputError, match="where no other process can import it"):
        name_of(Local())
    monkeypatch.setattr(Knn, "__module__", "__main__")
    monkeypatch.setitem(METHODS, "knn", Softmax)
    with pytest.raises(InputError, match=r"Knn is defined in __main__"):
        name_of(Knn())
    with pytest.raises(InputError, match="cannot be part of a name"):
        name_of(Volta(encoder=object()))


def test_cells_of_methods_with_parameters_are_apart_and_their_folders_plain():
    folders = {
        make_cell(
            "digits", "fair", name, 1, data_hash="d", parameters=find_method(name).method.__dict__, fingerprints=NO_CODE,
            budget=Budget(), threads=1, device="cpu",
        ).folder
        for name in ("knn", "knn(k=10)", "knn(k=100)", "volta(encoder='deep')")
    }  # fmt: skip
    assert len(folders) == 4
    plain = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    assert all(set(folder) <= plain and len(folder) < 200 for folder in folders)
    assert any(folder.startswith("digits--fair--knn-k-10--1--") for folder in folders)


def test_the_version_of_a_package_is_in_the_key():
    def key(package):
        return make_cell(
            "digits", "fair", "own", 1, data_hash="d", parameters={}, fingerprints=NO_CODE, budget=Budget(), threads=1,
            device="cpu", package=package,
        ).key  # fmt: skip

    assert len({key(""), key("own 1.0"), key("own 1.1")}) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("knn(k=0)", "knn: k is 0; expected an integer of at least 1"),
        ("nnguide(k=-3)", "k is -3; expected an integer of at least 1"),
        ("gen(top=0)", "top is 0; expected an integer of at least 1"),
        ("gen(gamma=-1.0)", "gamma is -1.0; expected a finite number above 0"),
        ("neco(dimension=-1)", "dimension is -1; expected an integer of at least 1"),
        ("swag(lr=-1.0)", "lr is -1.0; expected a finite number above 0"),
        ("gmm(n_components=-3)", "n_components is -3; expected an integer of at least 1"),
        ("gmm(max_iter=0)", "max_iter is 0; expected an integer of at least 1"),
        ("gmm(ridge=-1.0)", "ridge is -1.0; expected a finite number of at least 0"),
        ("maxlogit_pnorm(largest_p=0)", "largest_p is 0; expected an integer of at least 1"),
        ("weiper(n_bins=0)", "n_bins is 0; expected an integer of at least 1"),
        ("taylor_sensus(weight=-1.0)", "weight is -1.0; expected a finite number of at least 0"),
        ("linear(ridges=[])", r"ridges is \(\); pass one number above 0 or more"),
        ("linear(ridges=[0.1, -1.0])", "ridges is -1.0; expected a finite number above 0"),
        ("vector_scaling(ridge=-1.0)", "ridge is -1.0; expected a finite number of at least 0"),
        ("nci(alpha=-1.0)", "alpha is -1.0; expected a finite number of at least 0"),
        ("epinet(prior_scale=-1.0)", "prior_scale is -1.0; expected a finite number of at least 0"),
        ("volta_plus(dropout=2.0)", "dropout is 2.0; expected a finite number of at least 0 and below 1"),
        ("volta_plus(hidden=-1)", "hidden is -1; expected an integer of at least 1"),
        ("volta_plus(batch_size=0)", "batch_size is 0; expected an integer of at least 1"),
        ("conformal(alpha=1.5)", "alpha is 1.5; expected a number strictly between 0 and 1"),
        ("aps(alpha=0)", "alpha is 0.0; expected a number strictly between 0 and 1"),
        ("ensemble(n_members=0)", "n_members is 0; expected an integer of at least 1"),
        ("mc_dropout(dropout=1)", "dropout is 1.0; expected a number strictly between 0 and 1"),
        ("mc_dropout(n_passes=0)", "n_passes is 0"),
        ("mc_dropout(n_passes=1000000)", "n_passes is 1000000; expected at most 10,000"),
        ("swag(rank=0)", "rank is 0"),
        ("swag(n_samples=20000)", "n_samples is 20000; expected at most 10,000"),
        ("volta(n_passes=-1)", "volta: n_passes is -1; expected an integer of at least 0"),
        ("volta(n_passes=20000)", "n_passes is 20000; expected at most 10,000"),
        ("volta(temperature=0)", "temperature is 0.0; expected a finite number above 0"),
        ("volta(margin=-0.1)", "margin is -0.1; expected a finite number of at least 0"),
        ("volta(encoder=wide)", "encoder is 'wide'; it is one of residual, deep, shallow"),
        ("enn(n_indices=0)", "n_indices is 0"),
        ("react(percentile=0)", "percentile is 0.0; pass a number above 0"),
        ("sirc(second=other)", "second is 'other'; pass 'residual' or 'norm'"),
    ],
)
def test_parameters_out_of_range_are_refused_when_a_method_is_named(name, message):
    with pytest.raises(InputError, match=message):
        find_method(name)


def test_parameters_out_of_range_are_refused_before_a_fit():
    outputs = LabelledOutputs(Outputs(np.eye(3), np.eye(3)), np.arange(3))
    with pytest.raises(InputError, match="k is 0; expected an integer of at least 1"):
        Knn(k=0).fit_from_outputs(train=outputs)


def test_parameters_that_no_record_can_hold_are_refused():
    with pytest.raises(InputError, match="knn: k is inf, which no record can hold; pass a finite number, or None"):
        make_method(EndlessKnn, {}, "knn")


@dataclass
class EndlessKnn(Knn):
    k: float = math.inf
