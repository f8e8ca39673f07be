"""One run on disk: identity, folder, status, tables, provenance, and finding it again. Never imports torch."""

from lengthwise.runs.ending import Terminated, ending
from lengthwise.runs.find import find_run, iterate_runs, load_lengths, load_runs
from lengthwise.runs.folder import RunFolder
from lengthwise.runs.identity import RESULTS_VERSION, completed, run_hash, scientific, variant_hash
from lengthwise.runs.lengths import format_lengths, parse_lengths
from lengthwise.runs.lock import Claim
from lengthwise.runs.naming import component_name, factors, run_name
from lengthwise.runs.owner import Owner
from lengthwise.runs.provenance import describe_start, read_starts, record_start
from lengthwise.runs.status import Status, read_status, write_status
from lengthwise.runs.tables import Table, read_table

__all__ = [
    "RESULTS_VERSION",
    "Claim",
    "Owner",
    "RunFolder",
    "Status",
    "Table",
    "Terminated",
    "completed",
    "component_name",
    "describe_start",
    "ending",
    "factors",
    "find_run",
    "format_lengths",
    "iterate_runs",
    "load_lengths",
    "load_runs",
    "parse_lengths",
    "read_starts",
    "read_status",
    "read_table",
    "record_start",
    "run_hash",
    "run_name",
    "scientific",
    "variant_hash",
    "write_status",
]
