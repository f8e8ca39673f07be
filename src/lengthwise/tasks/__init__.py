"""What is learned: the contract of a task, vectorised generators, layouts for each model shape, held-out items."""

from lengthwise.tasks.bin_majority import BinMajority
from lengthwise.tasks.contract import Examples, Symmetry, Task, best_blind, concatenate, interleave
from lengthwise.tasks.digits import Digits
from lengthwise.tasks.items import test_items, validation_items
from lengthwise.tasks.layout import READOUTS, SHAPES, Layout
from lengthwise.tasks.majority import Majority
from lengthwise.tasks.offsets import Offsets
from lengthwise.tasks.overlap import seen_inputs, shared_items
from lengthwise.tasks.retrieval import First, Last
from lengthwise.tasks.sets import AboveMean, SetMax
from lengthwise.tasks.strings import Copy, Reverse, Sort, UniqueCopy
from lengthwise.tasks.vocabulary import Vocabulary
from lengthwise.tasks.word_order import WordOrder

__all__ = [
    "READOUTS",
    "SHAPES",
    "AboveMean",
    "BinMajority",
    "Copy",
    "Digits",
    "Examples",
    "First",
    "Last",
    "Layout",
    "Majority",
    "Offsets",
    "Reverse",
    "SetMax",
    "Sort",
    "Symmetry",
    "Task",
    "UniqueCopy",
    "Vocabulary",
    "WordOrder",
    "best_blind",
    "concatenate",
    "interleave",
    "seen_inputs",
    "shared_items",
    "test_items",
    "validation_items",
]
