"""Part of the annex with the learned chain: a picture in columns, or a table if the chain has cycles."""

from __future__ import annotations

from fairchain.chain import Chain
from fairchain.number_format import share, with_interval
from fairchain.report.chain_flow import flow_groups, flow_of, transitions_of
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, figure, html_table, join, name
from fairchain.report.plots.flow import flow_picture
from fairchain.report.plots.frame import without_prefix

MOST_DRAWN_STEPS = 24


def chain_section(findings: Findings) -> Markup | None:
    """Return the chain with the flows of two groups."""
    chain = findings.chain
    if chain is None:
        # Rows of a table are counted, not drawn, so no chain is expected.
        reason = findings.left_out.get("chain") if findings.verdict.rows is None else None
        return None if reason is None else el("p", f"Not possible here: {reason}.")
    groups = flow_groups(chain)
    if len(groups) < 2:
        return None
    gap = findings.verdict.gap
    pairs = [(gap.more, gap.less)]
    if findings.explanation is not None:
        pairs.append((findings.explanation.pair.more, findings.explanation.pair.less))
    more, less = next((pair for pair in pairs if {*pair} <= {*groups}), (groups[0], groups[1]))
    flow = flow_of(chain, groups, more, less)
    if flow is None:
        return _as_table(chain, more, less)
    start = "A Markov chain learned from the network: each group starts on the left and flows"
    units = "the unit that carries" if len(flow.columns) == 2 else "units that carry"
    told = (
        f"{start} through {units} much of the gap to a decision on the right. Where the colours of one state differ "
        "in height, the groups differ."
        if chain.metadata.get("states")
        else f"{start} to a decision on the right. No unit was found to carry a gap."
    )
    headings = [str(unit).partition(":")[0] for unit in chain.metadata.get("states", ())] + ["decision"]
    last, outcome = len(flow.columns) - 1, findings.outcome
    ends = [
        f"{share(strand.states[last, state])} of {strand.name}"
        for strand in flow.strands
        for state in flow.columns[last]
        if state == f"Y={outcome}" and (last, state) in strand.states
    ]
    about = f"{outcome} is reached by {', '.join(ends)}." if ends else f"{len(flow.columns)} columns of states."
    rounds = chain.metadata.get("rounds")
    counted = f" in {rounds:,} rounds, each of which evaluates every group once" if isinstance(rounds, int) else ""
    others = " The grey flow is the mean of the other groups." if any(s.tone == "others" for s in flow.strands) else ""
    explained = findings.explanation.units if findings.explanation is not None else ()
    cells = {unit.name for unit in explained if unit.kind == "cell"} & {*map(str, chain.metadata.get("states", ()))}
    moment = " Cells of a recurrent layer are shown after the last step." if cells else ""
    title = "The learned Markov chain"
    return join(
        el("p", told),
        el("ul", *(el("li", el("i"), name(strand.name), class_=strand.tone) for strand in flow.strands), class_="key"),
        figure(
            flow_picture(title, about, flow, headings, without_prefix([strand.name for strand in flow.strands])),
            title,
            "Point at a ribbon for the share of its group that takes it, and for the probability of the step with its "
            "interval; point at a state for the share of each group in it. Each group is traced separately, so the "
            f"shares on the right are those counted{counted}; the selection rates above come from other evaluations, "
            f"and have intervals.{others}{moment} All numbers are in chain.json.",
        ),
    )


def _as_table(chain: Chain, more: str, less: str) -> Markup | None:
    """Return the transitions in which two groups differ most."""
    one, other = transitions_of(chain, more), transitions_of(chain, less)
    both = sorted(one.keys() & other.keys(), key=lambda step: (-abs(one[step][0] - other[step][0]), step))
    if not both:
        return None
    rows: list[list[Child]] = [
        [name(step[0]), name(step[1]), with_interval(*one[step]), with_interval(*other[step])]
        for step in both[:MOST_DRAWN_STEPS]
    ]
    return join(
        el("p", "A Markov chain learned from the network: a unit is in one of its states at each step. Where the two "
           "columns differ, the groups differ."),
        html_table("Steps in which the groups differ most", ["from", "to", more, less], rows, words=(0, 1)),
        el("p", f"{len(rows)} of {len(both):,} steps; all of them are in chain.json.", class_="note"),
    )  # fmt: skip
