"""Tables, figures and one HTML page from a run folder alone."""

from volta.report.build import BuiltReport, build_report
from volta.report.compare import ChangeRow, RunComparison, compare_runs
from volta.report.formats import FORMATS, export

__all__ = [
    "FORMATS",
    "BuiltReport",
    "ChangeRow",
    "RunComparison",
    "build_report",
    "compare_runs",
    "export",
]
