"""``lengthwise check pe=mine``: everything that a component must do, tried out on it in seconds."""

from lengthwise.checks.component import check_component
from lengthwise.checks.verdicts import Report, Row

__all__ = ["Report", "Row", "check_component"]
