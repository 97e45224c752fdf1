"""Labels and states that a query names: their states, and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl.formula import Formula, labels_of
from fairchain.pctl.graph import Mask
from fairchain.pctl.lexer import beginning, quoted_label

MOST_SHOWN_LABELS = 8
# Comparing a name with very many others takes long.
MOST_COMPARED = 5000
# Labels that every chain has, as in PRISM and Storm, unless it defines one with that name.
INITIAL = "init"
DEADLOCK = "deadlock"
NO_STATE_CHAIN = "unknown state {name}; {name2}"


def holds_in(chain: Chain, name: str) -> Mask:
    """Return (states,): whether each state has a label.

    "init" is the initial state. No state has "deadlock": rows sum to 1, so every state has a successor.
    """
    mask = np.zeros(len(chain), bool)
    mask[list(chain.labels.get(name, {chain.initial} if name == INITIAL else ()))] = True
    return mask


def check_labels(chain: Chain, formula: Formula) -> None:
    """Raise a QueryError for the first label that the chain does not have."""
    for label in labels_of(formula):
        if label.name not in chain.labels and label.name not in (INITIAL, DEADLOCK):
            raise no_label(chain, label.name, label.column)


def no_label(chain: Chain, name: str, column: int) -> QueryError:
    """Return the error for a label, or a pattern, that the chain does not have."""
    where = f"column {column}: " if column else ""
    return QueryError(f"{where}unknown label {quoted_label(beginning(name))}; {_suggestion(name, chain.labels)}")


def state_number(chain: Chain, name: str) -> int:
    """Return the number of a state, or raise a QueryError."""
    if name not in chain.states:
        raise QueryError(
            NO_STATE_CHAIN.format(name=quoted_label(beginning(name)), name2=_suggestion(name, chain.states))
        )
    return chain.index(name)


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = list(known)
    compared = names[:MOST_COMPARED]
    by_case = {other.lower(): other for other in compared}
    near = get_close_matches(beginning(name), compared, n=3) or [
        by_case[each] for each in [name.lower()] if each in by_case
    ]
    if near:
        return f"did you mean {' or '.join(map(quoted_label, near))}?"
    if not names:
        return "it has none"
    listed = ", ".join(quoted_label(beginning(other)) for other in names[:MOST_SHOWN_LABELS])
    return f"expected one of {listed}" + (
        f" and {len(names) - MOST_SHOWN_LABELS} more" if len(names) > MOST_SHOWN_LABELS else ""
    )
