"""The commands of SCAN and what they mean: Lake & Baroni 2018, "Generalization without systematicity", from its rules.

Commands, as a grammar:

    C -> S and S | S after S | S
    S -> V twice | V thrice | V
    V -> D | M opposite T | M around T | U            with M T also as a D
    D -> M T        M -> U | turn        T -> left | right
    U -> walk | look | run | jump

Meanings: `u left` turns, then does u (`turn left` turns only); `opposite` turns twice first; `around` turns and does u,
four times over; `twice` and `thrice` repeat; `x after y` does y first.
"""

from __future__ import annotations

from functools import lru_cache

PRIMITIVES = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
TURNS = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}
WORDS = (*PRIMITIVES, "turn", *TURNS, "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = (*PRIMITIVES.values(), *TURNS.values())

Words = tuple[str, ...]


@lru_cache(maxsize=1)
def commands() -> dict[Words, Words]:
    """Every command, as words, with its actions, in the order in which the grammar makes them."""
    simple = {
        words + more: actions * times
        for words, actions in _verbs().items()
        for more, times in (((), 1), (("twice",), 2), (("thrice",), 3))
    }
    whole = dict(simple)
    for first, first_actions in simple.items():
        for second, second_actions in simple.items():
            whole[*first, "and", *second] = first_actions + second_actions
            whole[*first, "after", *second] = second_actions + first_actions
    return whole


def _verbs() -> dict[Words, Words]:
    """What V stands for, with its actions."""
    verbs: dict[Words, Words] = {}
    for verb, action in {**PRIMITIVES, "turn": None}.items():
        done = () if action is None else (action,)
        if done:
            verbs[verb,] = done
        for direction, turn in TURNS.items():
            verbs[verb, direction] = (turn, *done)
            verbs[verb, "opposite", direction] = (turn, turn, *done)
            verbs[verb, "around", direction] = (turn, *done) * 4
    return verbs
