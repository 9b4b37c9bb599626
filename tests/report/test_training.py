from __future__ import annotations

from dataclasses import replace

from volta.networks.recipe import TrainingLog
from volta.report.result_tables import training_table
from volta.report.run import load_run
from volta.report.words import group_warnings

from .synthetic import Plan, write_run

STOPPED = TrainingLog(100, 3, 10.0, (0.9, 0.5, 0.6, 0.7, 0.8), 1.0)
WHOLE = TrainingLog(4, None, 0.4, (0.9, 0.5, 0.6, 0.7), 1.0)


def group_with(folder, **logs):
    store = write_run(folder, Plan(seeds=(1, 2), n_rows=40))
    for record in store.records():
        store.replace_record(replace(record, trainings=logs.get(record.cell.method, ())))
    return load_run(store).groups[0]


def test_epochs_best_epochs_and_marks_of_each_method(folder):
    group = group_with(folder, softmax=(STOPPED,), volta=(WHOLE, replace(WHOLE, val_losses=(0.4, 0.3, 0.2, 0.1))))
    table = training_table(group)
    cells = {row.name: [cell.text for cell in row.cells[1:]] for row in table.rows}
    assert cells == {
        "volta": ["4", "4", "4", "2–4", "last epoch’s", "–"],
        "softmax": ["2", "5", "100", "2", "best epoch’s", "stopped early: 2 of 2; stopped in warm-up: 2 of 2"],
    }
    sentence = "2 of 4 cells rest on a training that stopped during learning-rate warm-up."
    assert sentence in group_warnings(group)


def test_records_that_tell_nothing_of_trainings_give_no_table(folder):
    group = group_with(folder)
    assert training_table(group) is None
    assert not any("warm-up" in line for line in group_warnings(group))
