"""What a run did without: data that were not fetched, networks that nobody pointed at. It is said and counted."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite.cases import OURS, PAPERS, Case
from benchmarks.suite.outcome import Check
from benchmarks.suite.paper import TABLE
from benchmarks.suite.sizes import Sizes


def not_run(cases: Sequence[Case], sizes: Sizes) -> str:
    """A paragraph for the head of a part, empty if all cases on all networks were run."""
    lines = []
    if not any(case.reads_texts for case in cases):
        why = "`fairchain data get toxicity glove` was not run" if sizes.text_seeds else "this size leaves them out"
        lines.append(f"The two cases about comments were not run: {why}.")
    if not any(case.whose == PAPERS for case in cases):
        lines.append("The paper's own networks were not run: `--models` did not point at them.")
    return "".join(f"\n\n{line}" for line in lines)


def all_cases(cases: Sequence[Case], sizes: Sizes) -> Check:
    """All eight of the paper's on our networks; without the comments' data a full run is not a full run."""
    run = {(case.network, case.protected) for case in cases if case.whose == OURS}
    missing = ", ".join(" ".join(each) for each in TABLE if each not in run)
    found = f"{len(run)} of {len(TABLE)}" + (f" (not {missing})" if missing else "")
    return Check("cases of the paper run on our networks", not missing, found, "all", enforced=sizes.text_seeds > 0)
