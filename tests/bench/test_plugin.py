"""The example plug-in, installed as a user would, benched on every executor; its code and version are in the keys.

Over two seconds: plug-ins are found when a process starts, so each test starts one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.running import ENVIRONMENT, results
from volta.bench.store import RunStore

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
METHODS = "margin,margin(temperature=2),softmax"
QUICK = ("--max-epochs", "3", "--seeds", "1,2", "--no-report")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder that the package is installed in; the interpreter's own packages stay as they are."""
    pytest.importorskip("setuptools", reason="setuptools, which builds the example, is not installed")
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(EXAMPLE, folder / "source")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*install, "--target", folder / "site", source], capture_output=True, text=True, check=False, timeout=300
    )
    if "No module named pip" in done.stderr:
        pytest.skip("pip, which installs the example, is not installed")
    assert done.returncode == 0, done.stderr
    return folder / "site"


def volta(site, *arguments, cwd=None):
    path = os.pathsep.join([str(site), *filter(None, [ENVIRONMENT.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "volta", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=300,
        check=False,
        cwd=cwd,
    )


# In one process: each command costs its imports.
_SESSION = """
import json, sys
from tests.bench.running import volta
from volta.features.backbones.load import load_backbone

done = [volta(*words) for words in json.loads(sys.argv[1])]
backbone = load_backbone(sys.argv[2]) if sys.argv[2] else None
answers = [[one.returncode, one.stdout, one.stderr] for one in done]
print(json.dumps([answers, backbone and [backbone.name, backbone.network is not None]]))
"""


def session(site, *commands, backbone=""):
    """Run commands in one process that has the plug-in; return exit code, output and errors of each, and the backbone."""
    path = os.pathsep.join([str(site), *filter(None, [ENVIRONMENT.get("PYTHONPATH")])])
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", _SESSION, words, backbone],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def finished(site, tmp_path_factory):
    """Return the folder of a run with the plug-in, what was said of it and in lists of names, and its backbone."""
    folder = tmp_path_factory.mktemp("rings") / "run"
    bench = ("bench", "rings", "--methods", METHODS, *QUICK, "--executor")
    commands = (
        (*bench, "local", "--out", folder),
        (*bench, "processes", "--workers", 1, "--out", folder.with_name("processes")),
        *(["tasks"], ["methods"], ["metrics"]),
    )
    answers, backbone = session(site, *commands, backbone="colour_means")
    assert [code for code, _, _ in answers] == [0, 0, 0, 0, 0], answers
    return folder, [said for _, said, _ in answers], backbone


def test_everything_it_brings_is_there(finished):
    folder, (said, _, tasks, methods, metrics), backbone = finished
    records = RunStore(folder).records()
    assert {record.cell.method for record in records} == {"margin", "margin(temperature=2.0)", "softmax"}
    assert {record.title for record in records} == {"Margin", "Margin (temperature = 2.0)", "Softmax (MSP)"}
    assert all(0.5 < record.test["top2_accuracy"] <= 1.0 for record in records)
    assert all("plug-in volta-example 0.1" in record.source for record in records)
    assert "Margin (temperature = 2.0)" in said
    assert "rings" in tasks
    assert "volta-example 0.1" in methods
    assert re.search(r"top2_accuracy .*↑", metrics)
    assert backbone == ["colour_means", True]


@pytest.fixture
def broken(tmp_path):
    """Return a folder with a plug-in whose method and metric are in a package that is not there."""
    info = tmp_path / "site" / "volta_broken-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: volta-broken\nVersion: 0.1\n", encoding="utf-8")
    points = "[volta.methods]\nlost = no_such_package:Lost\n[volta.metrics]\ngone = no_such_package:GONE\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    return info.parent


def test_what_cannot_be_loaded_is_named_and_takes_nothing_with_it(broken, tmp_path):
    bench = ("bench", "digits", "--methods", "lost", "--executor", "local", "--out", tmp_path / "other")
    (listed, refused), _ = session(broken, ["methods"], bench)
    assert listed[0] == 0
    assert "Softmax (MSP)" in listed[1]
    assert "lost" not in listed[1]
    assert listed[2].startswith("warning: the plug-in 'lost' of volta-broken 0.1 cannot be loaded")
    assert refused[0] == 2
    assert "error: the plug-in 'lost' of volta-broken 0.1 cannot be loaded" in refused[2]


# slow: every worker process looks for plug-ins
@pytest.mark.slow
def test_worker_processes_do_not_repeat_what_cannot_be_loaded(broken, tmp_path):
    options = ("--seeds", "1,", "--max-epochs", 1, "--limit-test", 50, "--no-report", "--executor", "processes")
    done = volta(broken, "bench", "digits", "--methods", "softmax", *options, "--out", tmp_path / "run")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: the plug-in 'gone' of volta-broken 0.1 cannot be loaded")


def test_processes_give_the_same(finished):
    found = results(finished[0].with_name("processes"))
    assert found == results(finished[0])
    assert {row[5] for row in found} >= {"top2_accuracy", "accuracy"}


# slow: a Ray cluster; tests/bench/test_ray.py starts one every time
@pytest.mark.slow
@pytest.mark.ray
def test_ray_gives_the_same(site, finished, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'volta-uq[ray]'")
    done = volta(site, "bench", "rings", "--methods", METHODS, *QUICK, "--executor", "ray", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(tmp_path) == results(finished[0])


@pytest.mark.slow
def test_its_code_and_its_version_decide_what_runs_again(site, finished, tmp_path):
    run = shutil.copytree(finished[0], tmp_path / "run")
    own = shutil.copytree(site, tmp_path / "site")

    def bench(*options):
        done = volta(own, "bench", "rings", "--methods", METHODS, *QUICK, "--executor", "local", "--out", run, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # A module that the method only imports: the two margins have to run again, softmax does not.
    scores = own / "volta_example" / "scores.py"
    text = scores.read_text(encoding="utf-8")
    scores.write_text(text.replace("top[:, 1] - top[:, 0]", "top[:, 1] - 1.0 * top[:, 0]"), encoding="utf-8")
    assert "2 done, 4 missing" in bench("--dry-run")
    scores.write_text(text + "\n# A comment is no change.\n", encoding="utf-8")
    assert "6 done, 0 missing" in bench("--dry-run")
    # A metric: nothing runs again, values are computed again from predictions.
    metric = own / "volta_example" / "top2.py"
    metric.write_text(metric.read_text(encoding="utf-8").replace("[:, :2]", "[:, :1]"), encoding="utf-8")
    said = bench()
    assert "computing those of 6 cells again from their stored predictions" in said
    assert "all 6 cells are done already" in said
    assert all(record.test["top2_accuracy"] == record.test["accuracy"] for record in RunStore(run).records())
    # A new version: its methods have to run again.
    (info,) = own.glob("volta_example-0.1.dist-info")
    meta = (info / "METADATA").read_text(encoding="utf-8").replace("Version: 0.1", "Version: 0.2")
    (info / "METADATA").write_text(meta, encoding="utf-8")
    assert "2 done, 4 missing" in bench("--dry-run")


@pytest.mark.slow
def test_a_module_of_the_working_folder_needs_no_package(site, tmp_path):
    (tmp_path / "my_scores.py").write_text(
        "from dataclasses import dataclass\n"
        "from volta.methods.softmax import Softmax\n\n"
        "@dataclass\nclass Mine(Softmax):\n    title = 'Mine'\n    weight: float = 1.0\n",
        encoding="utf-8",
    )
    methods = "my_scores:Mine,my_scores:Mine(weight=2)"
    options = ("--executor", "processes", "--workers", 2, "--out", "run")
    done = volta(site, "bench", "digits", "--methods", methods, *QUICK, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    titles = {record.title for record in RunStore(tmp_path / "run").records()}
    assert titles == {"Mine", "Mine (weight = 2.0)"}
