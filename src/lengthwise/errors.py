"""Errors whose message is meant for the person at the keyboard.

The command line prints them in one piece, without a traceback, and exits with code 2.
"""


class LengthwiseError(Exception):
    """Something the user can put right; the message says what, and what would work."""


class ConfigError(LengthwiseError):
    """A choice in the configuration that is unknown, illegal or impossible in combination."""


class RunError(LengthwiseError):
    """A run folder, checkpoint or record that is missing, damaged or in use."""


class RunBusy(RunError):
    """Another process is at work on the run."""
