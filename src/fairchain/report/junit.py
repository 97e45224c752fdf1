"""Verdicts as JUnit XML, for build servers: fair passes, unfair and constant fail, undecided is an error."""

from __future__ import annotations

from collections.abc import Mapping

from fairchain.number_format import bounded
from fairchain.report.markup import el
from fairchain.verification.record import VerdictRecord

# An undecided verdict is an error, not a failure: the run found evidence neither for nor against fairness.
PROBLEMS = {"UNFAIR": "failure", "UNDECIDED": "error", "CONSTANT": "failure"}


def junit(verdicts: Mapping[str, VerdictRecord], *, suite: str = "fairchain") -> str:
    """Return one test case for each verdict, with its name.

    >>> print(junit({}).splitlines()[0])
    <?xml version="1.0" encoding="UTF-8"?>
    """
    cases, problems = [], []
    for name, verdict in verdicts.items():
        problem = PROBLEMS.get(verdict.verdict)
        problems.append(problem)
        told = [verdict.sentence, verdict.statement, verdict.scope, *verdict.notes]
        told += [f"Assumed: {text}" for text in verdict.assumptions]
        groups = [f"P({group.outcome} | {group.name}) = {bounded(group)}" for group in verdict.groups]
        message = {"message": verdict.sentence, "type": verdict.verdict}
        cases.append(
            el(
                "testcase",
                el(problem, "\n".join(told), **message) if problem else None,
                el("system-out", "\n".join([*told, *groups])),
                name=name,
                classname=suite,
                time=f"{verdict.seconds:.3f}",
            )
        )
    seconds = sum(verdict.seconds for verdict in verdicts.values())
    counts = {"tests": len(cases), "failures": problems.count("failure"), "errors": problems.count("error")}
    whole = el(
        "testsuites",
        el("testsuite", *cases, name=suite, skipped=0, time=f"{seconds:.3f}", **counts),
        time=f"{seconds:.3f}",
        **counts,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'
