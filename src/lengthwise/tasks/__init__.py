"""What is learned: the contract of a task, vectorised generators, layouts for each model shape, held-out items."""

from lengthwise.tasks.addition import Addition, AdditionBinary, AdditionForward, AdditionPadded
from lengthwise.tasks.aggregation import DigitSum, MaxRegression, UniqueCount
from lengthwise.tasks.bin_majority import BinMajority, BinMajorityInterleave
from lengthwise.tasks.binary_arithmetic import BinaryAddition, BinaryMultiplication, ComputeSqrt
from lengthwise.tasks.contract import Examples, Symmetry, Task, best_blind, concatenate, interleave
from lengthwise.tasks.counting import Count
from lengthwise.tasks.digits import Digits
from lengthwise.tasks.duplicates import DuplicateString, MissingDuplicate
from lengthwise.tasks.dyck import Dyck, DyckNext
from lengthwise.tasks.expressions import ModularArithmeticBrackets, SolveEquation
from lengthwise.tasks.items import bin_lengths, test_items, validation_items
from lengthwise.tasks.layout import READOUTS, SHAPES, Layout
from lengthwise.tasks.lego import Lego
from lengthwise.tasks.majority import Majority
from lengthwise.tasks.max_retrieval import MaxRetrieval
from lengthwise.tasks.most_common import LetterMajority, Mode
from lengthwise.tasks.mqar import MQAR
from lengthwise.tasks.offsets import Offsets
from lengthwise.tasks.overlap import seen_inputs, shared_items, train_overlap
from lengthwise.tasks.parity import Parity
from lengthwise.tasks.prefix_blocks import PrefixBlocks
from lengthwise.tasks.rearranged import BucketSort, OddsFirst
from lengthwise.tasks.recall import InductionHeads, SelectiveCopying
from lengthwise.tasks.regular import CycleNavigation, EvenPairs, ModularArithmetic
from lengthwise.tasks.repetition import CopyTwice, RepeatToken, Replace, ReverseCopy, ReverseTwice
from lengthwise.tasks.retrieval import First, Last
from lengthwise.tasks.scan import Scan
from lengthwise.tasks.sets import AboveMean, SetMax
from lengthwise.tasks.sorting import SortNumbers, SortTokens
from lengthwise.tasks.stack import StackManipulation
from lengthwise.tasks.strings import Copy, Reverse, Sort, UniqueCopy
from lengthwise.tasks.sums import Polynomial, Summation
from lengthwise.tasks.text import Text
from lengthwise.tasks.vocabulary import Vocabulary
from lengthwise.tasks.word_order import WordOrder

__all__ = [
    "MQAR",
    "READOUTS",
    "SHAPES",
    "AboveMean",
    "Addition",
    "AdditionBinary",
    "AdditionForward",
    "AdditionPadded",
    "BinMajority",
    "BinMajorityInterleave",
    "BinaryAddition",
    "BinaryMultiplication",
    "BucketSort",
    "ComputeSqrt",
    "Copy",
    "CopyTwice",
    "Count",
    "CycleNavigation",
    "DigitSum",
    "Digits",
    "DuplicateString",
    "Dyck",
    "DyckNext",
    "EvenPairs",
    "Examples",
    "First",
    "InductionHeads",
    "Last",
    "Layout",
    "Lego",
    "LetterMajority",
    "Majority",
    "MaxRegression",
    "MaxRetrieval",
    "MissingDuplicate",
    "Mode",
    "ModularArithmetic",
    "ModularArithmeticBrackets",
    "OddsFirst",
    "Offsets",
    "Parity",
    "Polynomial",
    "PrefixBlocks",
    "RepeatToken",
    "Replace",
    "Reverse",
    "ReverseCopy",
    "ReverseTwice",
    "Scan",
    "SelectiveCopying",
    "SetMax",
    "SolveEquation",
    "Sort",
    "SortNumbers",
    "SortTokens",
    "StackManipulation",
    "Summation",
    "Symmetry",
    "Task",
    "Text",
    "UniqueCopy",
    "UniqueCount",
    "Vocabulary",
    "WordOrder",
    "best_blind",
    "bin_lengths",
    "concatenate",
    "interleave",
    "seen_inputs",
    "shared_items",
    "test_items",
    "train_overlap",
    "validation_items",
]
