"""Overrides that make a run of a second or two."""

QUICK = ["debug=fast", "overwrite=false", "wandb=disabled", "evaluation.lengths=[4,6,12]"]
"""A few steps of everything."""
