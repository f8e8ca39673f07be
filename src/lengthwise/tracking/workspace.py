"""A workspace for W&B's web page, declared as code: what one looks at first, laid out.

It needs the package wandb-workspaces, an optional one: ``pip install 'lengthwise[workspaces]'``.
"""

from __future__ import annotations

from typing import Any

from lengthwise.errors import ConfigError, RunError
from lengthwise.tracking.account import login_trouble
from lengthwise.tracking.service import let_go

NAME = "Lengthwise"

COLUMNS = (
    "config:pe", "config:norm", "config:task", "config:seed", "summary:last/token_accuracy/in_distribution",
    "summary:last/token_accuracy/extrapolation", "summary:last/exact_match/reach",
)  # fmt: skip
"""Beside the runs' names."""


def make_workspace(entity: str, project: str, *, name: str = NAME) -> Any:
    """Accuracy against length, symmetry, training, and the tables and pages, grouped by encoding: a
    `wandb_workspaces.workspaces.Workspace`, which is not yet saved."""
    import wandb_workspaces.reports.v2 as panels
    import wandb_workspaces.workspaces as workspaces
    from wandb_workspaces.expr import Config

    def lines(title: str, x: str, *y: str, **options: Any) -> Any:
        """Mean and range over the runs of each encoding."""
        grouped: dict[str, Any] = {
            "groupby": panels.Config("pe"),
            "groupby_aggfunc": "mean",
            "groupby_rangefunc": "minmax",
        }
        return panels.LinePlot(title=title, x=x, y=list(y), title_x=x, **grouped, **options)

    lengths = [
        lines("accuracy against length", "length/n", "length/accuracy", range_y=(0, 1)),
        lines("exact match against length", "length/n", "length/exact_match", range_y=(0, 1)),
        lines(
            "evidence inside the trained positions",
            "length/n",
            "length/evidence_inside/accuracy",
            range_y=(0, 1),
        ),
        lines("evidence outside", "length/n", "length/evidence_outside/accuracy", range_y=(0, 1)),
    ]
    symmetry = [
        lines("error under random permutations, relative to ‖f(x)‖", "step", "symmetry/uniform", log_y=True),
        lines("… to ‖f(x) − f(x′)‖", "step", "symmetry/uniform_difference", log_y=True),
    ]
    training = [
        lines("training loss", "step", "train/loss"),
        lines("validation loss", "step", "val/loss"),
        lines("validation accuracy", "step", "val/token_accuracy", range_y=(0, 1)),
        lines("learning rate", "step", "train/learning_rate"),
    ]
    tables = [
        panels.WeavePanelSummaryTable(table_name=table) for table in ("accuracy", "certificate", "scorecard")
    ]
    page = panels.MediaBrowser(title="the page of a sweep", media_keys=["page"], num_columns=1)
    sections = {"Length": lengths, "Symmetry": symmetry, "Training": training, "Tables": [*tables, page]}
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[
            workspaces.Section(name=title, panels=panels_of, is_open=True)
            for title, panels_of in sections.items()
        ],
        runset_settings=workspaces.RunsetSettings(groupby=[Config("pe")], pinned_columns=list(COLUMNS)),
    )


def push_workspace(project: str, entity: str | None = None, *, name: str = NAME) -> str:
    """Save the workspace as a new view of `project` (of `entity`, by default one's own); returns its address.

    Raises ConfigError where the package is missing or W&B cannot be logged to, RunError where it refuses the view.
    """
    try:
        import wandb_workspaces  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "lengthwise workspace needs the package wandb-workspaces: pip install 'lengthwise[workspaces]'"
        ) from error
    if trouble := login_trouble():
        raise ConfigError(f"lengthwise workspace: {trouble}")
    import wandb

    try:
        wandb.setup(wandb.Settings(mode="online", silent=True))
        workspace = make_workspace(entity or wandb.Api().default_entity or "", project, name=name).save()
        return str(workspace.url)
    except Exception as error:
        said = " ".join(str(error).split())
        raise RunError(f"W&B does not take the workspace of project {project!r}: {said}") from error
    finally:
        let_go()
