"""Verdicts as JUnit XML, for build servers: fair passes, unfair and constant fail, undecided is an error."""

from __future__ import annotations

from collections.abc import Mapping

from fairchain.number_format import bounded
from fairchain.report.markup import Markup, el
from fairchain.verification.record import GroupRate, VerdictRecord

# An undecided verdict is an error, not a failure: the run found evidence neither for nor against fairness.
PROBLEMS = {"UNFAIR": "failure", "UNDECIDED": "error", "CONSTANT": "failure"}


def junit(verdicts: Mapping[str, VerdictRecord], *, suite: str = "fairchain") -> str:
    """Return one test case for each verdict, with its name.

    >>> print(junit({}).splitlines()[0])
    <?xml version="1.0" encoding="UTF-8"?>
    """
    cases = [_case(name, verdict, suite) for name, verdict in verdicts.items()]
    problems = [PROBLEMS.get(verdict.verdict) for verdict in verdicts.values()]
    seconds = sum(verdict.seconds for verdict in verdicts.values())
    counts = {"tests": len(cases), "failures": problems.count("failure"), "errors": problems.count("error")}
    whole = el(
        "testsuites",
        el("testsuite", *cases, name=suite, skipped=0, time=f"{seconds:.3f}", **counts),
        time=f"{seconds:.3f}",
        **counts,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def _case(name: str, verdict: VerdictRecord, suite: str) -> Markup:
    told = verdict.sentence
    problem = PROBLEMS.get(verdict.verdict)
    first = [told, verdict.statement, verdict.scope, *verdict.notes]
    first += [f"Assumed: {text}" for text in verdict.assumptions]
    lines = [*first, *map(_group, verdict.groups)]
    return el(
        "testcase",
        el(problem, "\n".join(first), message=told, type=verdict.verdict) if problem else None,
        el("system-out", "\n".join(lines)),
        name=name,
        classname=suite,
        time=f"{verdict.seconds:.3f}",
    )


def _group(group: GroupRate) -> str:
    return f"P({group.outcome} | {group.name}) = {bounded(group)}"
