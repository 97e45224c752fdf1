"""The stages of an audit: each calls one package and returns its result as files of plain values, without times.

A stage raises an error where it is not possible for a question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fairchain.prepare import Case
from fairchain.records import Record
from fairchain.spec import Marginals, Spec, Table
from fairchain.tables.read import RawTable

if TYPE_CHECKING:
    from fairchain.chain import Chain
    from fairchain.explaining.result import Explanation, Influence
    from fairchain.verification.verdict import Verdict

# Units between the groups and the decision in the chain of a report: more cannot be read.
UNITS_SHOWN = 2
Files = Mapping[str, bytes]
Tell = Callable[[str], None]


@dataclass(eq=False)
class AuditRun:
    """One audit: what it is about, and the results that later stages use.

    Parameters
    ----------
    name, spec, case
        The name of the spec file, the spec with its file names, and the case prepared from it, for all stages.
    table, label
        Labelled rows, and their column of true labels.
    workers
        The number of threads.
    verdict, explanation, chain
        The results so far; None for what does not exist.
    """

    name: str
    spec: Spec
    case: Case
    table: RawTable | None = None
    label: str | None = None
    workers: int | None = None
    verdict: Verdict | None = None
    explanation: Explanation | None = None
    chain: Chain | None = None


def verify_files(run: AuditRun, tell: Tell) -> Files:
    """Verify; for rows the estimates of all pairs follow from the verdict."""
    from fairchain.certificates import dump, make_certificate
    from fairchain.verification import verify_case

    def progress(at: Any) -> None:
        done = f"{at.evaluations:,} of {at.total:,} rows" if at.gap is None else f"{at.gap}"
        tell(f"{done} so far")

    verdict = verify_case(run.case, workers=run.workers, progress=progress)
    if verdict.stopped == "interrupted":
        raise KeyboardInterrupt
    run.verdict = verdict
    files = {"verdict.json": to_json(verdict)}
    if verdict.certifiable:
        files["certificate.json"] = dump(make_certificate(verdict, timed=False)).encode()
    if isinstance(run.spec.population, Table):
        from fairchain.verification.all_pairs import survey_of_rows

        files["all-pairs.json"] = to_json(survey_of_rows(verdict))
    return files


def survey_files(run: AuditRun, tell: Tell) -> Files:
    """Estimate every group and every pair, where inputs are drawn."""
    from fairchain.verification.all_pairs import survey_case

    found = survey_case(run.case, workers=run.workers, progress=_rounds(tell))
    return {} if found is None else {"all-pairs.json": to_json(found)}


def explain_files(run: AuditRun, tell: Tell) -> Files:
    """Explain the gap."""
    from fairchain.explaining.explainer import explain_case

    # Witnesses are searched in the population's own rows where it has rows.
    own = isinstance(run.spec.population, Table | Marginals) or run.spec.text is not None
    found = explain_case(run.case, table=None if own else run.table, workers=run.workers, progress=_rounds(tell))
    return {"explanation.json": to_json(found)}


def chain_files(run: AuditRun, tell: Tell) -> Files:
    """Learn the chain through the units with the largest effects, and write it for other tools too."""
    from fairchain.chain import learn_chain
    from fairchain.chain.formats import chain_text

    states, view = chain_units(run.explanation) if run.explanation is not None else ([], None)
    run.chain = learn_chain(
        None,
        run.case,
        states=states,
        view=view,
        workers=run.workers,
        progress=lambda done, _: tell(f"{done:,} rounds"),
    )
    return {f"chain.{form}": chain_text(run.chain, form).encode() for form in ("json", "prism", "drn", "dot")}


def repair_files(run: AuditRun, tell: Tell) -> Files:
    """Repair the network; without an accepted one the file says what was tried."""
    from fairchain.repairing.files import certificate_of
    from fairchain.repairing.repairer import repair_case

    found = repair_case(
        run.case,
        data=run.table,
        label=run.label,
        workers=run.workers,
        progress=lambda at: tell(f"generation {at.iteration}, best gap {at.gap:.4f}"),
        before=run.verdict,
        explanation=run.explanation,
    )
    if found.stopped == "interrupted" or (found.after is not None and found.after.stopped == "interrupted"):
        raise KeyboardInterrupt
    files = {"repair.json": to_json(found)}
    if found.accepted and found.content is not None:
        files["repaired.onnx"] = found.content
        certificate = certificate_of(found, "repaired.onnx", timed=False)
        if certificate is not None:
            files["repaired-certificate.json"] = certificate
    return files


def chain_units(explanation: Explanation) -> tuple[list[str], Literal["last"] | None]:
    """Return the units with the largest effects, one of each layer, in the order of the network, and their view.

    A feature that is independent of the group looks the same for all groups, and is not shown. Of recurrent cells the
    chain has the last step.
    """
    order = [layer.name for layer in explanation.layers]
    first: dict[str, Influence] = {}
    for unit in explanation.units:
        dependent = unit.kind != "feature" or unit.sensitivity.low > 0
        if unit.effect.low > 0 and dependent and unit.layer in order:
            first.setdefault(unit.layer, unit)
    chosen = sorted(list(first.values())[:UNITS_SHOWN], key=lambda unit: order.index(unit.layer))
    return [unit.name for unit in chosen], "last" if any(unit.kind == "cell" for unit in chosen) else None


def to_json(result: Verdict | Record) -> bytes:
    """Return a result as JSON without the seconds it took, which differ from run to run."""
    values = result.to_dict()
    for record in (values, values.get("before"), values.get("after")):
        if record is not None:
            record.pop("seconds", None)
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()


def _rounds(tell: Tell) -> Callable[[int, int], None]:
    return lambda done, total: tell(f"{done:,} of {total:,} rounds")
