"""``--help``: the slots with their options, read from the YAML files. Imports neither Hydra nor torch."""

from __future__ import annotations

import re
from pathlib import Path

from lengthwise.outside import option_files
from lengthwise.paths import conf_dir, study_dirs

COMMANDS = """\
Lengthwise: a laboratory for position in Transformers.

  lengthwise train      train one run, or a sweep with -m        (python train.py)
  lengthwise evaluate   test a finished run at other lengths     (python evaluate.py)
  lengthwise report     all runs as one HTML page and tables     (python report.py)
  lengthwise scorecard  position encodings side by side, before any training
  lengthwise certify    which symmetries a model keeps; which length it minds
  lengthwise check      whether a component, such as an encoding of your own, does what it must
  lengthwise tasks      the tasks, and the card of each
  lengthwise show       sequences of a task, and what a trained run answers
  lengthwise runs       the runs on disk: list, filter, sort, show, compare, delete
  lengthwise sweeps     the state of each sweep on disk
  lengthwise workspace  a saved view for W&B's web page
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
  --config-dir DIR      DIR/pe/mine.yaml is pe=mine, its class in DIR/mine.py: docs/adding-an-encoding.md
  LENGTHWISE_TRACEBACK=1 in the environment shows the whole traceback of an error.
"""

_GROUPS = (
    "task", "pe", "positions", "norm", "norm_layer", "attention", "activation", "init", "model", "size",
    "optimizer", "schedule", "callbacks", "evaluation", "wandb", "debug",
)  # fmt: skip

_EVALUATE = """\
usage: python evaluate.py run=RUN [evaluation.lengths=[50,100,1000]] [evaluation.count=1024] [pe.OPTION=VALUE ...]

Tests a finished run at any lengths, without retraining, and adds what it finds to the run's record.

  run=RUN                   a run folder, its name, or the first characters of its hash
  evaluation.lengths=[...]  input symbols; also "10-20" for a range
  evaluation.bins=[...]     ranges with one figure each, [[51,100],[101,150]]
  evaluation=NAME           a published protocol: chomsky, bins (docs/evaluation.md)
  evaluation.KEY=VALUE      any key of conf/evaluation/default.yaml
  pe.OPTION=VALUE           another option of the encoding at test time, e.g. pe.beyond=interpolate
  positions=RULE            other position numbers at test time; positions.OPTION=VALUE likewise
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
        for path in option_files(group).values():
            mark = "*" if chosen.get(group) == path.stem else " "
            whose = "" if path.is_relative_to(conf_dir()) else f" [{path.parents[1]}]"
            lines.append(f"   {mark} {path.stem:<20} {comment(path)}{whose}")
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


_SCORECARD = """\
usage: lengthwise scorecard [pe=NAME[,NAME ...]] [pe.OPTION=VALUE[,VALUE ...]] [key=value ...]

What can be known of position encodings before anything is trained, in seconds: how many positions are told apart, in
float32 and in bfloat16; bounds; what happens past the trained length; whether dot products and attention scores depend
on the distance alone, and fall with it; whether shifts are linear; parameters, time and memory against pe=none. What is
measured stands beside what the encoding declares, and a disagreement is named.

Examples
  lengthwise scorecard                                   every encoding (stack only where it is asked for)
  lengthwise scorecard pe=sinusoidal pe.base=100,10000
  lengthwise scorecard pe=rotary,alibi model.width=256 model.heads=8 csv=scorecard.csv

  pe=NAME[,NAME]    one or several; several values of any other key as well: every combination gets a row
  key=value         any slot and key of `lengthwise train`: sizes, data.lengths, attention, --config-dir DIR
                    (model.width is 128 here, the width of the textbooks' pictures, unless it or size= is given;
                    an encoding that needs a decoder is measured in one, others in an encoder, unless model= says so)
  path=FILE         the page with the pictures (default: outputs/scorecard.html, where outputs=DIR may
                    name another folder; path=null writes none)
  csv=FILE          every measured and declared figure, one row an encoding (a file's folder must be there)
  --json            the same as JSON on standard output, instead of the table
"""


def scorecard() -> str:
    """What ``lengthwise scorecard --help`` prints."""
    return _SCORECARD


_CERTIFY = """\
usage: lengthwise certify [slot=option ...] [key=value ...]
       lengthwise certify run=RUN [checkpoint=last] [axes=all]
       lengthwise certify module=package.module:factory width=D

The symmetry certificate: for each property what the parts declare and what is measured, in float32 and float64, as the
largest error ‖f(gx) − g f(x)‖ over draws, divided by ‖f(x)‖ and by ‖f(x) − f(x′)‖. At most 1e-9 in float64 holds, more
than 1e-4 fails. Exit code 1 where something declared fails or cannot be shown.

Examples
  lengthwise certify pe=alibi norm=post
  lengthwise certify run=fddc2f layers=true
  lengthwise certify run=fddc2f axes=all

Of a model composed from the command line, untrained: any slot and key of `lengthwise train`, --config-dir DIR
Of a finished run
  run=RUN           a run folder, its name, or the first characters of its hash; outputs=DIR says where runs are
  checkpoint=last   last, best, or initial
  axes=all          "which length?": accuracy on sequences of the longest trained length with larger position numbers
                    (index), larger distances between them (distance: all of them; gap: at one place), more keys (keys),
                    beside truly longer input; added to the run's axes.csv. One or several of them: axes=index,keys
  pe.OPTION=VALUE   another option of the encoding at test time, positions=RULE other position numbers
  lengths=[20,50]   the longer inputs to compare with (default: the run's evaluation.lengths); count=1024 items each
Of your own module
  module=PATH:NAME  a torch module, or a callable that returns one, which maps (B, N, D) to (B, N, .) or (B, .);
                    key_mask (True = real) or src_key_padding_mask, and positions, are given where its forward takes
                    them. What it declares is read from its symmetries, causal and prefix_stable, where it has them
  width=D           numbers a token

  length=N          input symbols (default: the longest training length); sequences=8 draws=8 likewise
  layers=true       each layer's hidden states too
  strict=true       exit code 1 also where something holds that is not declared
  csv=FILE          every measured figure (its folder must be there); --json prints all as JSON instead
"""


def certify() -> str:
    """What ``lengthwise certify --help`` prints."""
    return _CERTIFY


def sweeps() -> str:
    """What ``lengthwise sweeps --help`` prints."""
    return _SWEEPS


_WORKSPACE = """\
usage: lengthwise workspace [project=NAME] [entity=NAME] [name=TITLE]

Saves a view of a project in your W&B account, and prints its address: accuracy against length as lines, mean and range
over the runs of each encoding; symmetry; training; the tables and the pages of sweeps. Each time it is a new view.

It needs an account (wandb login), the project in it (wandb.project, lengthwise by default: runs that were online, or
wandb sync), and pip install 'lengthwise[workspaces]'.
"""


def workspace() -> str:
    """What ``lengthwise workspace --help`` prints."""
    return _WORKSPACE


_CHECK = """\
usage: lengthwise check SLOT=OPTION [SLOT.KEY=VALUE ...] [--config-dir DIR]

Tries out a component, one of ours or your own, and prints property by property: ok, FAILED and why, or not applicable
and why. Takes less than half a minute; the exit code is 1 if anything failed.

  lengthwise check pe=mine --config-dir my_conf    an encoding of your own
  lengthwise check attention=scaled                so for norm, norm_layer, activation, init
  lengthwise check task=reverse                    a task: lengths, examples, baselines, layouts
  lengthwise check optimizer=adamw                 any other slot: its options, and a short training

An encoding, or another part of the model, is built into encoders and decoders of 1, 4, 6 and 12 heads, and has to show
the ten properties of docs/adding-an-encoding.md.
"""


def check() -> str:
    """What ``lengthwise check --help`` prints."""
    return _CHECK


_RUNS = """\
usage: lengthwise runs [CONDITION ...] [sort=[-]KEY] [columns=KEY,KEY] [limit=N] [--json]
       lengthwise runs show RUN ...          everything that is known of it
       lengthwise runs compare RUN RUN       what differs in configuration, then in results
       lengthwise runs delete RUN ... | CONDITION ...  [--yes]

Lists the runs under outputs/runs: what distinguishes them, and how well they do; why some failed.

  CONDITION    pe=rotary,alibi  seed!=0  state=failed  width>64  lengths=4-10  extrapolation>=0.9
  KEY          a factor (pe, norm, heads, seed), any key of the configuration, or a result; its end will do where it is
               clear: extrapolation is the token accuracy of the last checkpoint beyond the trained lengths
  sort=-KEY    from high to low
  RUN          a run folder, its name, or the first characters of its hash
  outputs=DIR  where the runs are (default: outputs)

A value is written as it is listed. Deleting asks first, and never touches a run that is at work, nor what a link leads
to.
"""


def runs() -> str:
    """What ``lengthwise runs --help`` prints."""
    return _RUNS


_TASKS = """\
usage: lengthwise tasks [NAME ...] [lengths=[10,50]] [markdown=FILE] [--json]

Lists the tasks; with a NAME its card: definition, worked examples, symmetry, source, what is known of its generalising,
and baselines: how well rules score that do not do the task.

  lengths=[10,50]  at which lengths baselines are given (default: the longest trained and the longest tested one)
  markdown=FILE    write the cards as one page
"""


def tasks() -> str:
    """What ``lengthwise tasks --help`` prints."""
    return _TASKS


_SHOW = """\
usage: lengthwise show task=NAME [length=N] [count=5] [split=test] [key=value ...]
       lengthwise show run=RUN [length=N] [count=5] [checkpoint=last]

Prints sequences of a task: the input, the right answer, and below what a model sees, with its answers where they are
read; with run=RUN what that run's model answers, decoded symbol by symbol where it reads its own answers.

  length=N     input symbols (default: the longest training length)
  split=test   test (the same items as every run's test), val or train
  key=value    any slot and key of `lengthwise train`: model=decoder, positions=randomized, task.symbols=4
  outputs=DIR  where the runs are (default: outputs)
"""


def show() -> str:
    """What ``lengthwise show --help`` prints."""
    return _SHOW


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


def comment(path: Path) -> str:
    """The first line of comment in an option's file, which says what it is."""
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
