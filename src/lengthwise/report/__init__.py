"""From run folders to statistics, tables and one HTML page. Never imports torch."""

from lengthwise.report.collect import collect
from lengthwise.report.export import export_results
from lengthwise.report.page import build_report
from lengthwise.report.summary import print_summary

__all__ = ["build_report", "collect", "export_results", "print_summary"]
