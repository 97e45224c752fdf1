"""The PRISM language: one module with one variable, the number of the state. Written only.

PRISM and Storm both read it. Names of states stand in comments, labels under the identifiers of `names`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairchain.chain.chain import Chain
from fairchain.chain.formats.identifiers import comment, identifiers_of
from fairchain.errors import ChainError

# Longer sums of states are put in parentheses by halves, as a parser descends into each bar.
FLAT = 16


def to_text(chain: Chain, *, intervals: bool = False) -> str:
    """The chain in the PRISM language, with intervals in place of probabilities if asked."""
    return "\n".join(_lines(chain, intervals)) + "\n"


def _lines(chain: Chain, intervals: bool) -> Iterator[str]:
    yield "// A Markov chain, written by fairchain"
    yield from ("dtmc", "", "module chain")
    # PRISM has no variable with a single value.
    yield f"  s : [0..{max(len(chain) - 1, 1)}] init {chain.initial};"
    yield ""
    updates = _updates(chain, intervals)
    for state, name in enumerate(chain.states):
        unvisited = " (nothing was seen of this state: its transitions are made up)" if state in chain.unvisited else ""
        yield f"  // {comment(name)}{unvisited}"
        each = [text for text in updates[chain.starts[state] : chain.starts[state + 1]] if text]
        yield f"  [] s={state} -> " + "\n    + ".join(each) + ";"
    yield "endmodule"
    for label, identifier in identifiers_of(chain.labels).items():
        yield ""
        yield f"// {comment(label)}"
        yield f'label "{identifier}" = {_any_of(sorted(chain.labels[label]))};'


def _updates(chain: Chain, intervals: bool) -> list[str]:
    """What each transition adds to its command; nothing if it cannot be."""
    targets = chain.targets.tolist()
    if not intervals:
        probabilities = chain.probabilities.tolist()
        return [
            f"{value!r} : (s'={target})" if value else "" for value, target in zip(probabilities, targets, strict=True)
        ]
    if chain.low is None or chain.high is None:
        raise ChainError("this chain has no intervals; write it without them")
    bounds = zip(chain.low.tolist(), chain.high.tolist(), targets, strict=True)
    return [f"[{low!r}, {high!r}] : (s'={target})" if high else "" for low, high, target in bounds]


def _any_of(states: Sequence[int]) -> str:
    """A formula for being in one of these states, which are sorted."""
    runs: list[tuple[int, int]] = []
    for state in states:
        if runs and runs[-1][1] == state - 1:
            runs[-1] = runs[-1][0], state
        else:
            runs.append((state, state))
    return _joined([_run(*run) for run in runs]) if runs else "false"


def _run(first: int, last: int) -> str:
    if last - first < 2:
        return "|".join(f"s={state}" for state in range(first, last + 1))
    return f"(s>={first}&s<={last})"


def _joined(parts: Sequence[str]) -> str:
    if len(parts) <= FLAT:
        return "|".join(parts)
    half = len(parts) // 2
    return f"({_joined(parts[:half])})|({_joined(parts[half:])})"
