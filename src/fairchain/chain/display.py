"""A chain as a table with the transitions of each state, as text and for notebooks.

Names may come from an untrusted file: all of them are escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from fairchain.chain.chain import Chain

MOST_PRINTED_STATES = 60
# The width of a column of names is limited.
WIDEST_NAME = 48


def chain_table(chain: Chain, most: int | None = MOST_PRINTED_STATES) -> str:
    """Return a chain as a table, state by state.

    Parameters
    ----------
    chain
        The chain.
    most
        Largest number of lines of transitions; None for all.

    Examples
    --------
    >>> import numpy as np
    >>> coin = Chain(("Start", "heads", "tails"), np.array([0, 0, 1, 2]), np.array([1, 2, 1, 2]),
    ...              np.array([0.5, 0.5, 1, 1]), {})
    >>> print(chain_table(coin))
    Markov chain: 3 states, 4 transitions
    Start -> heads 0.500
          -> tails 0.500
    heads stays
    tails stays
    """
    rows: list[tuple[str, str, str]] = []
    left = 0
    every = ((state, row) for state in range(len(chain)) for row in _rows(chain, state))
    for state, row in every:
        if most is not None and len(rows) >= most:
            left = len(chain) - state
            break
        rows.append(row)
    wide, wide_target = (min(max((len(row[place]) for row in rows), default=0), WIDEST_NAME) for place in (0, 1))
    lines, previous = [heading(chain)], None
    for source, target, text in rows:
        shown = source if source != previous else ""
        previous = source
        if target:
            lines.append(f"{shown:<{wide}} -> {target:<{wide_target}} {text}")
        else:
            lines.append(f"{shown:<{wide}} {text}" if text.startswith("->") else f"{shown} {text}")
    if left:
        lines.append(f"... and the rest of {_number(left, 'state')}; chain_table(chain, most=None) shows all")
    return "\n".join(lines)


def chain_html(chain: Chain, most: int | None = MOST_PRINTED_STATES) -> str:
    """Return the same table for notebooks: the text with its columns, escaped."""
    return f"<pre>{html.escape(chain_table(chain, most))}</pre>"


def heading(chain: Chain) -> str:
    """Return a line with the kind of the chain, its size and its fidelity."""
    metadata = chain.metadata
    kind = ", ".join(
        on_one_line(metadata[key]) for key in ("kind", "view", "estimator") if isinstance(metadata.get(key), str)
    )
    parts = [_number(len(chain), "state"), _number(int((chain.probabilities > 0).sum()), "transition")]
    if isinstance(metadata.get("rounds"), int):
        parts.append(_number(metadata["rounds"], "round"))
    if chain.unvisited:
        parts.append(f"{_number(len(chain.unvisited), 'state')} never seen")
    said = [f"Markov chain{f' ({kind})' if kind else ''}: {', '.join(parts)}"]
    # The error of P(label | group), if it was measured; `metadata` is untrusted.
    error: Any = metadata.get("fidelity")
    if phi := measured(error):
        where = " and ".join(on_one_line(error[key]) for key in ("group", "label") if isinstance(error.get(key), str))
        said.append(f"fidelity Phi = {phi}, the error of P(label | group){f' for {where}' if where else ''}")
        steps, visits = measured(error.get("steps")), measured(error.get("visits"))
        if steps and visits:
            said.append(f"of P(state after a step) {steps}, of P(ever in a state) {visits}")
    return "; ".join(part for part in (*said, left_out(chain)) if part)


def left_out(chain: Chain) -> str:
    """Return the groups that are left out as too small, with their shares; `metadata` is untrusted."""
    found = chain.metadata.get("left_out")
    named = [
        f"{on_one_line(str(each['name']))} (share {each['share']:.3g})"
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict) and "name" in each and isinstance(each.get("share"), int | float)
    ]
    return f"left out, below property.min_size: {', '.join(named)}" if named else ""


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def measured(value: Any, decimals: int = 3) -> str:
    """Return a measured error with its bounds, or an empty text if there is none; `metadata` is untrusted."""
    if not isinstance(value, dict):
        return ""
    numbers = [value.get(key) for key in ("estimate", "low", "high")]
    if not all(isinstance(number, int | float) for number in numbers):
        return ""
    shown, low, high = (f"{number:.{decimals}f}" for number in numbers)
    return f"{shown} [{low}, {high}]"


def _rows(chain: Chain, state: int) -> Iterator[tuple[str, str, str]]:
    """Yield (source, target, value) for each transition, or (source, "", remark) instead of a target."""
    source = on_one_line(chain.states[state])
    begin, end = int(chain.starts[state]), int(chain.starts[state + 1])
    real = [place for place in range(begin, end) if chain.probabilities[place] > 0]
    if state in chain.unvisited:
        yield source, "", "was never visited: its transitions are placeholders"
        return
    if [int(chain.targets[place]) for place in real] == [state]:
        yield source, "", "stays"
    else:
        for place in real:
            yield source, on_one_line(chain.states[chain.targets[place]]), _value(chain, place)
    hidden = end - begin - len(real)
    if hidden and chain.high is not None:
        highest = float(np.delete(chain.high[begin:end], [place - begin for place in real]).max())
        yield source, "", f"-> {hidden:,} never observed, each at most {probability_digits(highest)}"


def _value(chain: Chain, place: int) -> str:
    """Return a probability with its bounds and count; declared shares, whose bounds are equal, have neither."""
    text = probability_digits(chain.probabilities[place])
    if chain.low is not None and chain.high is not None:
        if chain.low[place] == chain.high[place]:
            return text
        text += f" [{probability_digits(chain.low[place])}, {probability_digits(chain.high[place])}]"
    return text if chain.counts is None else f"{text} (n={int(chain.counts[place])})"


def probability_digits(value: float) -> str:
    """Return three decimals, or more if they would show 0 or 1 for another number."""
    text = f"{value:.3f}"
    if text in ("0.000", "1.000") and value not in (0, 1):
        return f"{value:.2e}" if value < 0.5 else f"{value:.7f}".rstrip("0")
    return text


def on_one_line(text: str) -> str:
    """Return a name that cannot move the cursor or break the line."""
    return text if text.isprintable() else ascii(text)[1:-1]
