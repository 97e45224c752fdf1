"""The stages of an audit: each calls one package and turns its result into files of plain values, without times.

A stage that is not possible for a question says so in its file, and the audit goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as replace_key

from fairchain.errors import ChainError, ModelError, SpecError
from fairchain.models import Model, OnnxModel
from fairchain.spec import Marginals, Spec, Table

if TYPE_CHECKING:
    from fairchain.explaining.result import Explanation, Influence
    from fairchain.prepare import Case
    from fairchain.repairing.result import Repair
    from fairchain.verification.all_pairs import AllPairs
    from fairchain.verification.verdict import Verdict

# Units that stand between the groups and the decision in the chain of a report: more cannot be read.
UNITS_SHOWN = 2
NOT_POSSIBLE = (ChainError, ModelError, SpecError)
NOT_DONE = "not_possible"
Tell = Callable[[str], None]


@dataclass
class StageResults:
    """What stages of this process hand on to later ones; None for what was not computed, or was kept on disk."""

    case: Case | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, eq=False)
class AuditContext:
    """What an audit is about: the spec, the network, labelled rows with their column of labels, how many threads.

    `tell` is called with a line about how far a stage is; `results` are shared by all stages.
    """

    name: str
    spec: Spec
    network: Model | None
    data: Path | None
    label: str | None
    workers: int | None
    tell: Tell = lambda _: None
    results: StageResults = field(default_factory=StageResults)

    @property
    def case(self) -> Case:
        """The prepared question, made when a stage first needs it."""
        if self.results.case is None:
            from fairchain.prepare import prepare

            self.results.case = prepare(self.network, self.spec)
        return self.results.case


def verify_files(question: AuditContext) -> Mapping[str, bytes]:
    """The verdict and its certificate; of rows also every group and pair, which follow from it."""
    from fairchain.certificates import dump, make_certificate
    from fairchain.verification import verify_case

    def tell(progress: Any) -> None:
        at = f"{progress.evaluations:,} of {progress.total:,} rows" if progress.gap is None else f"{progress.gap}"
        question.tell(f"{at} so far")

    verdict = verify_case(question.case, workers=question.workers, progress=tell)
    if verdict.stopped == "interrupted":
        raise KeyboardInterrupt
    question.results.verdict = verdict
    found = {"verdict.json": _written(verdict)}
    if verdict.certifiable:
        found["certificate.json"] = dump(make_certificate(verdict, timed=False)).encode()
    if isinstance(question.spec.population, Table):
        from fairchain.verification.all_pairs import all_pairs_of_rows

        found["all-pairs.json"] = _written(all_pairs_of_rows(verdict))
    return found


def survey_files(question: AuditContext) -> Mapping[str, bytes]:
    """Every group and every pair, where people are drawn."""
    from fairchain.verification.all_pairs import estimate_all_pairs

    if isinstance(question.spec.population, Table):
        return {}
    found = estimate_all_pairs(question.case, workers=question.workers, progress=_rounds(question))
    return {} if found is None else {"all-pairs.json": _written(found)}


def explain_files(question: AuditContext) -> Mapping[str, bytes]:
    """What carries the gap."""
    from fairchain.explaining import explain

    # Rows that the population is made of are looked at anyway, and others would take their place.
    own = isinstance(question.spec.population, Table | Marginals) or question.spec.text is not None
    try:
        found = explain(
            _opened(question),
            question.spec,
            table=None if own else question.data,
            workers=question.workers,
            progress=_rounds(question),
        )
    except NOT_POSSIBLE as error:
        return {"explanation.json": _not_possible(error)}
    return {"explanation.json": _written(found)}


def chain_files(question: AuditContext, explanation: Explanation | None) -> Mapping[str, bytes]:
    """The chain through the units with the largest effect, for other tools too."""
    from fairchain.chain import learn_chain
    from fairchain.chain.formats import chain_text

    states, view = _shown_units(explanation) if explanation is not None else ([], None)
    try:
        chain = learn_chain(
            _opened(question),
            question.spec,
            states=states,
            view=view,
            workers=question.workers,
            progress=lambda done, _: question.tell(f"{done:,} rounds"),
        )
    except NOT_POSSIBLE as error:
        return {"chain.json": _not_possible(error)}
    return {f"chain.{form}": chain_text(chain, form).encode() for form in ("json", "prism", "drn", "dot")}


def repair_files(question: AuditContext) -> Mapping[str, bytes]:
    """The repaired network with its certificate, or what was tried."""
    from fairchain.certificates import dump, make_certificate
    from fairchain.repairing import repair

    try:
        found = repair(
            _opened(question),
            question.spec,
            data=question.data,
            label=question.label,
            workers=question.workers,
            progress=lambda at: question.tell(f"generation {at.iteration}, best gap {at.gap:.4f}"),
            before=question.results.verdict,
        )
    except NOT_POSSIBLE as error:
        return {"repair.json": _not_possible(error)}
    verdicts = [verdict for verdict in (found.before, found.after) if verdict is not None]
    if "interrupted" in (found.stopped, *(verdict.stopped for verdict in verdicts)):
        raise KeyboardInterrupt
    files = {"repair.json": _written(found)}
    if found.accepted and found.content is not None and found.after is not None:
        files["repaired.onnx"] = found.content
        model = replace_key(found.after.spec.model, path="repaired.onnx")
        named = replace(found.after, spec=replace_key(found.after.spec, model=model))
        if named.certifiable:
            files["repaired-certificate.json"] = dump(make_certificate(named, timed=False)).encode()
    return files


def _shown_units(explanation: Explanation) -> tuple[list[str], Any]:
    """The units with the largest effects, one of a layer, in the order of the network; of steps over time the last.

    A feature that is independent of the group looks the same for all groups, and is not drawn.
    """
    order = [layer.name for layer in explanation.layers]
    first: dict[str, Influence] = {}
    for unit in explanation.units:
        apart = unit.kind != "feature" or unit.sensitivity.low > 0
        if unit.effect.low > 0 and apart and unit.layer in order:
            first.setdefault(unit.layer, unit)
    chosen = sorted(list(first.values())[:UNITS_SHOWN], key=lambda unit: order.index(unit.layer))
    return [unit.name for unit in chosen], "last" if any(unit.kind == "cell" for unit in chosen) else None


def _opened(question: AuditContext) -> OnnxModel:
    """The network, if it can be looked into."""
    if question.network is None:
        raise ModelError("recorded decisions have no network that could be looked into")
    if not isinstance(question.network, OnnxModel):
        raise ModelError(f"{question.network.name}: only a network that onnxruntime runs can be looked into")
    return question.network


def _rounds(question: AuditContext) -> Callable[[int, int], None]:
    return lambda done, total: question.tell(f"{done:,} of {total:,} rounds")


def _written(result: Verdict | AllPairs | Explanation | Repair) -> bytes:
    """Return a result as JSON without the seconds it took, which differ from run to run."""
    values = result.to_dict()
    for record in (values, values.get("before"), values.get("after")):
        if record is not None:
            record.pop("seconds", None)
    return _json(values)


def _not_possible(error: Exception) -> bytes:
    return _json({NOT_DONE: str(error)})


def _json(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
