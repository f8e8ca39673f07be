"""``--help``: the slots with their options, read from the YAML files. Imports neither Hydra nor torch."""

from __future__ import annotations

import re
from pathlib import Path

from lengthwise.paths import conf_dir, study_dirs

COMMANDS = """\
Lengthwise: a laboratory for position in Transformers.

  lengthwise train      train one run, or a sweep with -m        (python train.py)
  lengthwise evaluate   test a finished run at other lengths     (python evaluate.py)
  lengthwise report     all runs as one HTML page and tables     (python report.py)
  lengthwise sweeps     the state of each sweep on disk
  lengthwise demo       the quick studies, end to end            (make demo)

Each answers to --help.
"""

_TRAIN = """\
usage: python train.py [slot=option ...] [key=value ...]
       python train.py -m slot=option,option ... key=value,value ...   (a sweep: one run for each combination)
       python train.py study=NAME [key=value,value ...]                (a study: its own sweep; an axis replaced)

Examples
  python train.py pe=learned norm=pre
  python train.py -m pe=none,sinusoidal,rotary norm=pre,post model.heads=1,4 seed=0,1,2
  python train.py task=reverse model=decoder trainer.max_steps=2000

The same command again continues a run that was cut short, and reports one that is done.
"""

_END = """\
  --cfg job             print the composed configuration and stop
  -m                    sweep: commas separate the values of an axis
  hydra/launcher=NAME   where a sweep's jobs run: {launchers}; hydra.launcher.KEY=VALUE sets its options
  hydra/sweeper=optuna  search over the axes instead of running every combination
  --config-dir DIR      search DIR too, for slots and options of your own
  LENGTHWISE_TRACEBACK=1 in the environment shows the whole traceback of an error.
"""

_GROUPS = (
    "task", "pe", "norm", "norm_layer", "attention", "activation", "init", "model", "size",
    "optimizer", "schedule", "callbacks", "wandb", "debug",
)  # fmt: skip

_EVALUATE = """\
usage: python evaluate.py run=RUN [evaluation.lengths=[50,100,1000]] [evaluation.count=1024] [pe.OPTION=VALUE ...]

Tests a finished run at any lengths, without retraining, and adds what it finds to the run's record.

  run=RUN                   a run folder, its name, or the first characters of its hash
  evaluation.lengths=[...]  input symbols; also "10-20" for a range
  evaluation.KEY=VALUE      any key of conf/evaluation/default.yaml
  pe.OPTION=VALUE           another option of the encoding at test time, e.g. pe.beyond=interpolate
  outputs=DIR               where the runs are (default: outputs)
"""

_REPORT = """\
usage: python report.py [outputs=outputs] [path=outputs/report.html] [study=NAME] [title=TEXT] [export=DIR]

Gathers the run folders into tables with intervals and one self-contained HTML page.

  study=NAME   only the runs of that study's sweeps
  export=DIR   also write the tables as CSV and Markdown, with the configuration of every run
"""


def train() -> str:
    """What ``train.py --help`` prints."""
    lines = [_TRAIN, "Slots (slot=option; the default is marked *)"]
    chosen = _defaults()
    for group in _GROUPS:
        lines.append(f"  {group}")
        for path in sorted((conf_dir() / group).glob("*.yaml")):
            mark = "*" if chosen.get(group) == path.stem else " "
            lines.append(f"   {mark} {path.stem:<20} {_comment(path)}")
    studies = sorted({path.parent.name for folder in study_dirs() for path in folder.glob("*/study.yaml")})
    lines.append(f"  study\n     {', '.join(studies) or 'none found in ./experiments'}")
    lines += ["", "Keys (with their defaults)", *_keys()]
    launchers = ", ".join(sorted(path.stem for path in (conf_dir() / "hydra" / "launcher").glob("*.yaml")))
    return "\n".join([*lines, "", "Options", _END.format(launchers=launchers)])


_SWEEPS = """\
usage: lengthwise sweeps [NAME] [outputs=outputs] [--json]

Shows each sweep under outputs/sweeps with how many of its runs are done, running, failed, interrupted or waiting,
as the runs themselves say now; with a NAME (its beginning will do) every cell of that sweep and why it failed.
"""


def sweeps() -> str:
    """What ``lengthwise sweeps --help`` prints."""
    return _SWEEPS


def evaluate() -> str:
    """What ``evaluate.py --help`` prints."""
    return _EVALUATE


_DEMO = """\
usage: lengthwise demo [outputs=outputs] [key=value ...]

Trains the quick studies (length_generalization, order_free_control, equivariance, norm_placement, head_count), prints
what they found and writes one HTML page.
Further key=value pairs go to every run. The same command again runs only what is missing.
"""


def demo() -> str:
    """What ``lengthwise demo --help`` prints."""
    return _DEMO


def report() -> str:
    """What ``report.py --help`` prints."""
    return _REPORT


def _defaults() -> dict[str, str]:
    text = (conf_dir() / "config.yaml").read_text(encoding="utf-8")
    return dict(re.findall(r"^  - (\w+): (\w+)$", text, flags=re.M))


def _comment(path: Path) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and not line.startswith("# @"):
            return line[2:]
    return ""


def _keys() -> list[str]:
    """``key=value  # comment`` for every key of the default configuration, from the YAML that sets it."""
    text = (conf_dir() / "config.yaml").read_text(encoding="utf-8")
    body = "model:" + text.partition("\nmodel:")[2].partition("\nhydra:")[0]
    found = _assignments(body, "")
    for group, option in _defaults().items():
        body = (conf_dir() / group / f"{option}.yaml").read_text(encoding="utf-8")
        package = re.search(r"^# @package (\w+)$", body, flags=re.M)
        prefix = {"_global_": "", None: f"{group}."}.get(package and package.group(1), "model.")
        found += _assignments(body, prefix)
    return [f"  {f'{key}={value}':<38} {comment}".rstrip() for key, value, comment in found]


def _assignments(body: str, prefix: str) -> list[tuple[str, str, str]]:
    found, parent = [], ""
    for line in body.splitlines():
        match = re.match(r"( *)(\w+):\s*([^#]*?)\s*(?:#\s*(.*))?$", line)
        if match is None or match.group(2) in ("_target_", "_partial_"):
            continue
        indent, key, value, comment = match.groups()
        if value or indent:
            found.append((f"{prefix}{parent if indent else ''}{key}", value, comment or ""))
        else:
            parent = f"{key}."
    return found
