"""A trained model back from its run folder."""

from __future__ import annotations

from pathlib import Path

from lengthwise.build import build_parts
from lengthwise.nn import Transformer
from lengthwise.runs import find_run
from lengthwise.training.callbacks.checkpoints import load_weights


def load_model(run: str | Path, checkpoint: str = "last", *, outputs: str | Path = "outputs") -> Transformer:
    """The model of a run, in evaluation mode, with the weights of `checkpoint` ("last" or "best").

    run: a run folder, its name, or the first characters of its hash.

    Raises RunError where the run or the checkpoint is missing or damaged, or a component of one's own was edited since.
    """
    folder = find_run(outputs, str(run))
    config = folder.read_config()
    folder.refuse_changed_source(config)
    _, _, model = build_parts(config)
    load_weights(model, folder.checkpoints / f"{checkpoint}.ckpt")
    return model.eval()
