"""Where position numbers come from: a contract, and one file for each rule."""

from .contract import Positions
from .floats import Floats
from .offset import Offset
from .randomized import Randomized
from .sequential import Sequential
from .task import TaskSupplied

__all__ = ["Floats", "Offset", "Positions", "Randomized", "Sequential", "TaskSupplied"]
