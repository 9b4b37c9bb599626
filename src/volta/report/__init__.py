"""Tables, figures and one HTML page from a run folder alone."""

from volta.report.build import build_report
from volta.report.compare import ChangeRow, RunComparison, compare_runs
from volta.report.export import FORMATS, export

__all__ = ["FORMATS", "ChangeRow", "RunComparison", "build_report", "compare_runs", "export"]
