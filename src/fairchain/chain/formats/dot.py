"""A chain as a graph for Graphviz: columns from left to right, line widths by probability. Written only.

Colours represent groups: a state that is reached through only one successor of the start has its colour, so a product
chain shows a band for each group, and a shared chain shows where the bands meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

import numpy as np

from fairchain.chain.chain import Chain, Floats, Indices

# Dark enough on white, and distinguishable by most colour-blind readers.
GROUP_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#4b4ba3", "#7f3b08", "#1b7837")
NEUTRAL_COLOUR = "#444444"
RARE = 0.05
_MIXED, _NONE = -2, -1


def to_lines(chain: Chain) -> Iterator[str]:
    """Yield the lines of the chain in the DOT language."""
    columns = state_columns(chain)
    colours = _colours(chain)
    stays = [set(ahead) <= {state} for state, ahead in enumerate(_successors(chain))]
    yield "digraph chain {"
    real = (chain.probabilities > 0) & (chain.sources != chain.targets)
    # Arrows within a column need space beside it, and so do their numbers.
    apart = 0.75 if (columns[chain.sources] == columns[chain.targets])[real].any() else 0.25
    yield f"  rankdir=LR; splines=true; nodesep={apart}; ranksep=1.1;"
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=11];'
    yield '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.6];'
    yield ""
    for state, (name, colour) in enumerate(zip(chain.states, colours, strict=True)):
        if state in chain.unvisited:
            look = f'\\n(never visited)", color="{colour}", fontcolor="#888888", style="rounded,dashed"'
        else:
            border = ", peripheries=2" if stays[state] else ""
            look = f'", color="{colour}"{border}{", penwidth=2" if state == chain.initial else ""}'
        yield f'  s{state} [label="{escaped(name)}{look}];'
    yield ""
    members: list[list[str]] = [[] for _ in range(int(columns.max()) + 1)]
    for state, column in enumerate(columns.tolist()):
        members[column].append(f"s{state};")
    for each in members:
        yield f"  {{ rank=same; {' '.join(each)} }}"
    yield ""
    yield from _edges(chain, columns, colours, stays)
    yield "}"


def _edges(chain: Chain, columns: Indices, colours: list[str], stays: list[bool]) -> Iterator[str]:
    arrays = (chain.sources, chain.targets, chain.probabilities, flows_of(chain, columns))
    edges = zip(*(each.tolist() for each in arrays), strict=True)
    beside = [0] * len(chain)
    for place, (source, target, probability, through) in enumerate(edges):
        # An absorbing state has a double border instead of a loop.
        if probability == 0 or (source == target and stays[source]):
            continue
        colour = colours[target if source == chain.initial else source]
        style = ", style=dashed" if probability < RARE or source in chain.unvisited else ""
        back = ", constraint=false" if columns[target] <= columns[source] else ""
        label = "label"
        if columns[target] == columns[source] and target != source:
            # The numbers of two opposite arrows would overlap, and so would those of two arrows from one state.
            label, back = "taillabel", f"{back}, labeldistance={2.6 + 2 * beside[source]:g}, labelangle=-32"
            beside[source] += 1
        yield (
            f'  s{source} -> s{target} [{label}="{probability:.3g}", penwidth={0.5 + 5 * through:.2f}, '
            f'color="{colour}", tooltip="{escaped(_tip(chain, place))}"{style}{back}];'
        )


def _tip(chain: Chain, place: int) -> str:
    names = f"{chain.states[chain.sources[place]]} -> {chain.states[chain.targets[place]]}"
    text = f"{names}: {chain.probabilities[place]:.6g}"
    if chain.low is not None and chain.high is not None:
        if chain.low[place] == chain.high[place]:
            return text  # declared, like the shares of the groups, and not counted
        text += f" [{chain.low[place]:.6g}, {chain.high[place]:.6g}]"
    return text if chain.counts is None else f"{text}, n={chain.counts[place]}"


def _successors(chain: Chain) -> list[list[int]]:
    """Return the successors of each state with positive probability."""
    targets, real = chain.targets.tolist(), (chain.probabilities > 0).tolist()
    rows = zip(chain.starts[:-1].tolist(), chain.starts[1:].tolist(), strict=True)
    return [[targets[place] for place in range(begin, end) if real[place]] for begin, end in rows]


def state_columns(chain: Chain) -> Indices:
    """Return the column of each state: the length of the longest path from the start, or the shortest with cycles.

    A loop is not a cycle. Unreached states have a separate column.
    """
    onward = [[target for target in ahead if target != state] for state, ahead in enumerate(_successors(chain))]
    shortest = {chain.initial: 0}
    for state in (queue := [chain.initial]):
        for target in onward[state]:
            if target not in shortest:
                shortest[target] = shortest[state] + 1
                queue.append(target)
    column = shortest
    with suppress(CycleError):
        # Successors come before their predecessors.
        ordered = [*TopologicalSorter({state: onward[state] for state in shortest}).static_order()]
        column = dict.fromkeys(shortest, 0)
        for state in reversed(ordered):
            for target in onward[state]:
                column[target] = max(column[target], column[state] + 1)
    outside = max(column.values()) + 1
    return np.array([column.get(state, outside) for state in range(len(chain))], np.intp)


def flows_of(chain: Chain, columns: Indices) -> Floats:
    """Return the probability of passing each transition; with cycles, before any step back."""
    inside = np.zeros(len(chain))
    inside[chain.initial] = 1
    starts, targets, probabilities = chain.starts, chain.targets, chain.probabilities
    for state in np.argsort(columns, kind="stable").tolist():
        row = slice(int(starts[state]), int(starts[state + 1]))
        onward = columns[targets[row]] > columns[state]
        inside[targets[row][onward]] += inside[state] * probabilities[row][onward]
    flow: Floats = np.minimum(inside, 1)[chain.sources] * probabilities
    return flow


def _colours(chain: Chain) -> list[str]:
    """Return a colour for each state: that of the only successor of the start through which it is reached."""
    onward = _successors(chain)
    owner = [_NONE] * len(chain)
    owner[chain.initial] = _MIXED
    first = {state: number for number, state in enumerate(onward[chain.initial]) if state != chain.initial}
    for state, number in first.items():
        owner[state] = number
    queue = [*first]
    for state in queue:
        for target in onward[state]:
            # From none to one group to several: each state is visited at most three times.
            if owner[target] not in (owner[state], _MIXED):
                owner[target] = owner[state] if owner[target] == _NONE else _MIXED
                queue.append(target)
    return [GROUP_COLOURS[group % len(GROUP_COLOURS)] if group >= 0 else NEUTRAL_COLOUR for group in owner]


def escaped(text: str) -> str:
    """Return a name for quotes of DOT, in which backslashes, quotes and entities are special."""
    plain = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return (
        plain.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
