"""The PRISM language: one module with one variable, the index of the state. Written only.

PRISM and Storm both read it. Names of states are in comments, labels are written as identifiers (`identifiers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairchain.chain.chain import Chain
from fairchain.chain.formats.identifiers import comment_name, identifiers_of, written_values

# Longer disjunctions of states are nested by halves, because a parser recurses into each "|".
FLAT = 16


def to_text(chain: Chain, *, intervals: bool = False) -> str:
    """Return the chain in the PRISM language, with intervals instead of probabilities if requested."""
    return "\n".join(_lines(chain, intervals)) + "\n"


def _lines(chain: Chain, intervals: bool) -> Iterator[str]:
    yield "// A Markov chain, written by fairchain"
    yield from ("dtmc", "", "module chain")
    # PRISM has no variable with a single value.
    yield f"  s : [0..{max(len(chain) - 1, 1)}] init {chain.initial};"
    yield ""
    values, targets = written_values(chain, intervals), chain.targets.tolist()
    # A transition of probability 0 is left out.
    possible = ((chain.high if intervals and chain.high is not None else chain.probabilities) > 0).tolist()
    for state, name in enumerate(chain.states):
        unvisited = " (never visited: its transitions are placeholders)" if state in chain.unvisited else ""
        yield f"  // {comment_name(name)}{unvisited}"
        row = range(chain.starts[state], chain.starts[state + 1])
        updates = [f"{values[place]} : (s'={targets[place]})" for place in row if possible[place]]
        yield f"  [] s={state} -> " + "\n    + ".join(updates) + ";"
    yield "endmodule"
    for label, identifier in identifiers_of(chain.labels).items():
        yield ""
        yield f"// {comment_name(label)}"
        yield f'label "{identifier}" = {_any_of(sorted(chain.labels[label]))};'


def _any_of(states: Sequence[int]) -> str:
    """Return a formula for being in one of these states, which are sorted."""
    runs: list[tuple[int, int]] = []
    for state in states:
        if runs and runs[-1][1] == state - 1:
            runs[-1] = runs[-1][0], state
        else:
            runs.append((state, state))
    parts = [
        f"(s>={first}&s<={last})" if last - first > 1 else "|".join(f"s={state}" for state in range(first, last + 1))
        for first, last in runs
    ]
    return _joined(parts) if parts else "false"


def _joined(parts: Sequence[str]) -> str:
    if len(parts) <= FLAT:
        return "|".join(parts)
    half = len(parts) // 2
    return f"({_joined(parts[:half])})|({_joined(parts[half:])})"
