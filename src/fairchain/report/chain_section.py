"""The part of the page with the learned chain: as a picture in columns, or as a table where it comes back to itself."""

from __future__ import annotations

from collections.abc import Sequence

from fairchain.chain import Chain
from fairchain.number_format import share, with_interval
from fairchain.report.chain_flow import ChainFlow, flow_of, groups_of, transitions_of
from fairchain.report.elements import figure, not_possible, section, table
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, name
from fairchain.report.plots.flow import flow_picture
from fairchain.report.plots.matrix import without_prefix

TITLE = "How the network gets there"
MOST_STEPS = 24


def chain_section(findings: Findings) -> Markup | None:
    """The chain, with the difference between two groups in sight."""
    chain = findings.chain
    if chain is None:
        # People of a table are counted, not drawn: nobody would expect a chain of them.
        return not_possible(findings, "chain", "chain", TITLE) if findings.verdict.rows is None else None
    groups = groups_of(chain)
    if len(groups) < 2:
        return None
    more, less = _pair(findings, groups)
    flow = flow_of(chain, groups, more, less)
    if flow is None:
        return _as_table(chain, more, less)
    return section(
        "chain",
        TITLE,
        _introduction(chain, flow),
        el("ul", *(el("li", el("i"), name(strand.name), class_=strand.tone) for strand in flow.strands), class_="key"),
        _picture(findings, chain, flow),
    )


def _pair(findings: Findings, groups: Sequence[str]) -> tuple[str, str]:
    """Two groups of the chain: those with the largest gap, else those that are explained, else the first."""
    pairs = [findings.widest[:2]]
    if findings.explanation is not None:
        pairs.append((findings.explanation.pair.more, findings.explanation.pair.less))
    for more, less in pairs:
        if more in groups and less in groups:
            return more, less
    return groups[0], groups[1]


def _introduction(chain: Chain, flow: ChainFlow) -> Markup:
    start = "A Markov chain learned from the network: each group starts on the left and flows"
    if not chain.metadata.get("states"):
        return el("p", f"{start} to a decision on the right. No unit stands between: none was found to carry a gap.")
    way = "the unit that carries" if len(flow.columns) == 2 else "units that carry"
    return el(
        "p",
        f"{start}, by way of {way} much of the gap, to a decision on the right. Where the colours of one state differ "
        "in height, the groups part.",
    )


def _picture(findings: Findings, chain: Chain, flow: ChainFlow) -> Markup:
    headings = [str(unit).partition(":")[0] for unit in chain.metadata.get("states", ())] + ["decision"]
    last, outcome = len(flow.columns) - 1, findings.widest[2]
    ends = [
        f"{share(strand.states[last, state])} of {strand.name}"
        for strand in flow.strands
        for state in flow.columns[last]
        if state == f"Y={outcome}" and (last, state) in strand.states
    ]
    about = f"{outcome} is reached by {', '.join(ends)}." if ends else f"{len(flow.columns)} columns of states."
    rounds = chain.metadata.get("rounds")
    counted = f" in {rounds:,} rounds, in each of which every group is asked once" if isinstance(rounds, int) else ""
    others = " Groups in grey count the same each." if any(s.tone == "others" for s in flow.strands) else ""
    title = "The learned Markov chain"
    return figure(
        flow_picture(title, about, flow, headings, without_prefix([strand.name for strand in flow.strands])),
        title,
        "Point at a ribbon for its probability with interval, at a state for the share of each group. States carry the "
        f"group, so that the shares on the right are those counted{counted}.{others}{_at_the_end(findings, chain)}",
    )


def _at_the_end(findings: Findings, chain: Chain) -> str:
    """Of something that changes with every word one moment is drawn, and it must be said which."""
    units = findings.explanation.units if findings.explanation is not None else ()
    cells = {unit.name for unit in units if unit.kind == "cell"}
    if cells.isdisjoint(map(str, chain.metadata.get("states", ()))):
        return ""
    return " Cells of a recurrent layer are drawn as they are after the last step."


def _as_table(chain: Chain, more: str, less: str) -> Markup | None:
    """The steps in which two groups differ most."""
    one, other = transitions_of(chain, more), transitions_of(chain, less)
    both = sorted(one.keys() & other.keys(), key=lambda step: (-abs(one[step][0] - other[step][0]), step))
    if not both:
        return None
    rows: list[list[Child]] = [
        [name(step[0]), name(step[1]), with_interval(*one[step]), with_interval(*other[step])]
        for step in both[:MOST_STEPS]
    ]
    return section(
        "chain",
        TITLE,
        el("p", "A Markov chain learned from the network, whose states may come back: a unit is in one of them at each "
           "step. Where the two columns differ, the groups part."),
        table("Steps in which the groups differ most", ["from", "to", more, less], rows, words=(0, 1)),
        el("p", f"{len(rows)} of {len(both):,} steps; all of them are in chain.json.", class_="note"),
    )  # fmt: skip
