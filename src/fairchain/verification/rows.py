"""By rows: every row of a table asked once; exact for everybody, with exact bounds for a sample."""

from __future__ import annotations

import time

from fairchain.evidence import Decision, thread_pool
from fairchain.evidence.rows import RowsAnswer
from fairchain.evidence.sampling import labels_in
from fairchain.model import Model
from fairchain.spec import Spec, Table
from fairchain.tables import People
from fairchain.verdict import Inquiry, RowLedger, Verdict, assemble, limit_of
from fairchain.verification.poll import poll
from fairchain.verification.progress import Progress, Report, notes_on
from fairchain.witnesses import changed_rows
from fairchain.wording import rows_phrase


def verify_rows(model: Model | None, spec: Spec, people: People, workers: int, progress: Report | None) -> Verdict:
    """Every row asked once: exact for everybody, with exact bounds for a sample."""
    population = spec.population
    assert isinstance(population, Table)
    start = time.perf_counter()
    exact = population.reading == "population"

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(Progress(0, done, time.perf_counter() - start, None, total))

    with thread_pool(workers) as pool:
        found = poll(people, spec, model, pool=pool, progress=report)
    comparison = found.comparison
    delta = 0.0 if exact else spec.guarantee.delta
    answer = RowsAnswer(
        found.counts,
        comparison.compared,
        comparison.measure,
        limit_of(spec),
        delta,
        comparison.overall,
        disjoint=comparison.disjoint,
        single=comparison.individual,
    )
    inquiry = Inquiry(
        spec=spec,
        comparison=comparison,
        ledger=RowLedger(
            len(people.values),
            comparison.rows,
            tuple(found.counts.asked.tolist()),
            tuple(tuple(row) for row in found.counts.got.tolist()),
            tuple(sorted(labels_in(found.labels))),
        ),
        rounds=0,
        evaluations=found.evaluations,
        tried=found.labels.size,
        stopped="rows" if answer.decision is Decision.UNDECIDED else "decided",
        population=rows_phrase(
            len(people.values), population.path, exact=exact, given=spec.property.given, dropped=people.dropped
        ),
        model_sha256=model.sha256 if model is not None else "",
        table_sha256=people.sha256,
        witnesses=changed_rows(spec, comparison, people.values[found.rows], found.labels),
        left_out=found.left_out,
        notes=notes_on(model, people.dropped),
        certifiable=model is None or model.certifiable,
    )
    return assemble(inquiry, answer, start)
