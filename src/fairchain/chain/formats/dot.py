"""A chain as a graph for Graphviz: columns from left to right, thick lines where most people go. Written only.

Colours follow the groups: a state that is reached through one successor of the start only has that one's colour, so a
product chain shows a band for each group, and a shared chain where the bands meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from fairchain.chain.chain import Chain, Floats, Indices

# Dark enough to be read on white, and told apart by most colour-blind people.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#4b4ba3", "#7f3b08", "#1b7837")
NEUTRAL = "#444444"
RARE = 0.05
_MIXED, _NOBODY = -2, -1


def to_text(chain: Chain) -> str:
    """The chain in the DOT language."""
    return "\n".join(_lines(chain)) + "\n"


def _lines(chain: Chain) -> Iterator[str]:
    columns = columns_of(chain)
    colours = _colours(chain)
    yield "digraph chain {"
    real = (chain.probabilities > 0) & (chain.sources != chain.targets)
    # Arrows within a column need room beside it, and so do their numbers.
    apart = 0.75 if (columns[chain.sources] == columns[chain.targets])[real].any() else 0.25
    yield f"  rankdir=LR; splines=true; nodesep={apart}; ranksep=1.1;"
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=11];'
    yield '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.6];'
    yield ""
    for state in range(len(chain)):
        yield f"  s{state} [{_node(chain, state, colours[state])}];"
    yield ""
    members: list[list[str]] = [[] for _ in range(int(columns.max()) + 1)]
    for state, column in enumerate(columns.tolist()):
        members[column].append(f"s{state};")
    for column in members:
        yield f"  {{ rank=same; {' '.join(column)} }}"
    yield ""
    yield from _edges(chain, columns, colours)
    yield "}"


def _node(chain: Chain, state: int, colour: str) -> str:
    name = escaped(chain.states[state])
    if state in chain.unvisited:
        return f'label="{name}\\n(nothing seen)", color="{colour}", fontcolor="#888888", style="rounded,dashed"'
    border = ", peripheries=2" if _stays(chain, state) else ""
    start = ", penwidth=2" if state == chain.initial else ""
    return f'label="{name}", color="{colour}"{border}{start}'


def _edges(chain: Chain, columns: Indices, colours: list[str]) -> Iterator[str]:
    flow = flows_of(chain, columns)
    stays = [_stays(chain, state) for state in range(len(chain))]
    edges = zip(
        chain.sources.tolist(), chain.targets.tolist(), chain.probabilities.tolist(), flow.tolist(), strict=True
    )
    beside = [0] * len(chain)
    for place, (source, target, probability, through) in enumerate(edges):
        # A state that is never left has a double border instead of a loop.
        if probability == 0 or (source == target and stays[source]):
            continue
        colour = colours[target if source == chain.initial else source]
        style = ", style=dashed" if probability < RARE or source in chain.unvisited else ""
        back = ", constraint=false" if columns[target] <= columns[source] else ""
        label = "label"
        if columns[target] == columns[source] and target != source:
            # Two arrows that lead to and fro would have their numbers in one place, and so would two from one state.
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
            return text  # declared, as the shares of the groups are, and not counted
        text += f" [{chain.low[place]:.6g}, {chain.high[place]:.6g}]"
    return text if chain.counts is None else f"{text}, n={chain.counts[place]}"


def _stays(chain: Chain, state: int) -> bool:
    begin, end = chain.starts[state], chain.starts[state + 1]
    row = slice(int(begin), int(end))
    return bool(((chain.targets[row] == state) | (chain.probabilities[row] == 0)).all())


def columns_of(chain: Chain) -> Indices:
    """The column of each state: the longest way from the start, or the shortest if there are cycles.

    A state staying where it is counts as no cycle. States that are not reached stand in a column of their own.
    """
    starts, targets = chain.starts.tolist(), chain.targets.tolist()
    real = (chain.probabilities > 0).tolist()
    onward = [
        [targets[place] for place in range(starts[state], starts[state + 1]) if real[place] and targets[place] != state]
        for state in range(len(chain))
    ]
    shortest = {chain.initial: 0}
    queue = deque([chain.initial])
    while queue:
        state = queue.popleft()
        for target in onward[state]:
            if target not in shortest:
                shortest[target] = shortest[state] + 1
                queue.append(target)
    column = _longest(chain.initial, onward, set(shortest)) or shortest
    outside = max(column.values()) + 1
    return np.array([column.get(state, outside) for state in range(len(chain))], np.intp)


def _longest(initial: int, onward: list[list[int]], reached: set[int]) -> dict[int, int] | None:
    """The longest way to each state; None if there is a cycle."""
    incoming = dict.fromkeys(reached, 0)
    for state in reached:
        for target in onward[state]:
            incoming[target] += 1
    if incoming[initial]:
        return None
    column, ready, done = dict.fromkeys(reached, 0), [initial], 0
    while ready:
        state = ready.pop()
        done += 1
        for target in onward[state]:
            column[target] = max(column[target], column[state] + 1)
            incoming[target] -= 1
            if not incoming[target]:
                ready.append(target)
    return column if done == len(reached) else None


def flows_of(chain: Chain, columns: Indices) -> Floats:
    """The probability of coming through each transition; with cycles, before any step back."""
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
    """A colour for each state: that of the one successor of the start through which it is reached, if it is one."""
    starts, targets = chain.starts.tolist(), chain.targets.tolist()
    real = (chain.probabilities > 0).tolist()

    def onward(state: int) -> list[int]:
        return [targets[place] for place in range(starts[state], starts[state + 1]) if real[place]]

    owner = [_NOBODY] * len(chain)
    owner[chain.initial] = _MIXED
    queue: deque[int] = deque()
    for number, state in enumerate(onward(chain.initial)):
        if state != chain.initial:
            owner[state] = number
            queue.append(state)
    while queue:
        state = queue.popleft()
        for target in onward(state):
            # From nobody to one group to several: each state is looked at three times at most.
            merged = owner[state] if owner[target] == _NOBODY else _MIXED
            if owner[target] not in (owner[state], _MIXED):
                owner[target] = merged
                queue.append(target)
    return [COLOURS[group % len(COLOURS)] if group >= 0 else NEUTRAL for group in owner]


def escaped(text: str) -> str:
    """A name inside quotes of DOT, in which backslashes, quotes and entities have a meaning."""
    plain = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return (
        plain.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
