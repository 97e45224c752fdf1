"""The paper's Algorithm 1: verify and, if the model is not fair, explain and repair it; then report.

All stages work on one prepared case and pass their results to later stages. Each stage returns files of plain values,
without times, and the report is made from these files. So an audit that was stopped ends with the same bytes as one
that was not.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from fairchain._version import __version__
from fairchain.auditing.checkpoints import Checkpoints, Files, open_checkpoints
from fairchain.auditing.row_facts import code_names, described_decision, described_feature, row_facts
from fairchain.certificates import dump, make_certificate, make_family_certificate
from fairchain.chain import Chain, learn_chain
from fairchain.chain.formats import chain_text, read_chain
from fairchain.errors import AuditError, ChainError, ModelError, OutputError, SpecError
from fairchain.executors import AnyWorkers, open_workers
from fairchain.explaining.explainer import explain_case
from fairchain.explaining.result import Explanation, Influence
from fairchain.messages import FILE_NOT_FOUND
from fairchain.models import OnnxModel
from fairchain.models.load import PYTHON, is_path, is_url
from fairchain.prepare import Case, case_of, prepare, read_question
from fairchain.records import Record
from fairchain.repairing.files import repair_certificate, thresholds_text
from fairchain.repairing.repair_data import LabelledRows, read_labelled_rows
from fairchain.repairing.repairer import repair_case
from fairchain.repairing.result import RepairRecord
from fairchain.report.findings import Findings
from fairchain.report.markdown import markdown
from fairchain.report.page import page, selection_page
from fairchain.report.selection_table import RowFacts, selection_csv
from fairchain.spec import Marginals, Spec, Table, Texts, load_specs, revise
from fairchain.spec.documents import files_of
from fairchain.spec.population_keys import UserFunction
from fairchain.tables import read_table
from fairchain.tables.read import RawTable
from fairchain.verification.all_pairs import AllPairs, all_pairs
from fairchain.verification.family import (
    FamilyRecord,
    FamilyVerdict,
    divided,
    family_cases,
    verify_cases,
    with_one_seed,
)
from fairchain.verification.record import VerdictRecord
from fairchain.verification.sampling import REFINE
from fairchain.verification.verdict import Verdict

ABOUT = {
    "certificate.json": "the verdict with every count behind it",
    "verdict.json": "the verdict, with counterfactual pairs",
    "questions.json": "the verdicts on all questions",
    "questions-repaired.json": "the verdicts on all questions for the repaired network",
    "all-pairs.json": "the gap of every pair with its interval",
    "explanation.json": "every feature and neuron with its effect",
    "chain.json": "the learned Markov chain, complete",
    "chain.prism": "the chain for PRISM and Storm",
    "chain.drn": "the chain for Storm",
    "chain.dot": "the chain as a drawing, for Graphviz",
    "network.onnx": "the network that was audited",
    "selection-rates.csv": "selection rates and impact ratios of the groups, for spreadsheets",
    "selection-rates.html": "the same tables as a separate page, as bias audits of hiring tools publish them",
    "selection-rates-repaired.csv": "the same for the repaired model",
    "repaired.onnx": "the repaired network",
    "thresholds.json": "the decision thresholds of the repaired model",
    "repaired-certificate.json": "the verdict on the repaired network",
    "repair.json": "the candidates of the repair, and its price",
    "report.md": "this report in Markdown",
}
# Stages that may not be possible for a question, by the file that then contains the reason.
OPTIONAL = {"explain": "explanation.json", "chain": "chain.json", "repair": "repair.json"}
# Largest number of units in the chain of a report: a chain with more units is not readable.
UNITS_SHOWN = 2
Tell = Callable[[str], None]
T = TypeVar("T")


class NotPossible(Record, frozen=True):
    """The reason why a stage is not possible for a question."""

    not_possible: str | None = None


@dataclass(frozen=True)
class Step:
    """Progress of an audit: a stage that starts, continues (`detail` says how far), or is finished, now or before."""

    stage: str
    detail: str = ""
    finished: bool = False
    kept: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of an audit: the verdict on the original model, and the files of the audit.

    `recheck` lists the commands that check the certificates. Run these commands in the directory in which you called
    `audit`. `findings` contains all results that the report shows.
    """

    decision: str
    repaired: bool
    folder: Path
    recheck: tuple[str, ...]
    findings: Findings

    @property
    def report(self) -> Path:
        """The path of the HTML report."""
        return self.folder / "report.html"

    def __str__(self) -> str:
        lines, repair = [self.findings.verdict.sentence], self.findings.repair
        if repair is not None and repair.needed:
            after = repair.after if self.repaired else None
            failed = f"NOT REPAIRED: {repair.statement.removeprefix('Not repaired: ')}"
            price = "" if repair.price is None else f"; {repair.price}"
            lines.append(failed if after is None else f"REPAIRED: {after.headline}{price}")
        elif reason := self.findings.left_out.get("repair"):
            lines.append(f"No repair: {reason}.")
        return "\n".join([*lines, f"Report: {self.report}"])

    def __repr__(self) -> str:
        return f"<Audit {'; '.join(str(self).splitlines())}>"


@dataclass(eq=False)
class AuditRun:
    """One audit: its question, model and rows, and the results that later stages use."""

    # The name of the spec file, the spec of each question with its file names, and the cases prepared from them.
    name: str
    specs: Sequence[Spec]
    cases: Sequence[Case]
    # The model that replaces the spec's, an object or the name of one; None for a file.
    source: Any = None
    # Labelled rows, and their column of true labels.
    labelled: RawTable | None = None
    label: str | None = None
    workers: AnyWorkers = None
    # The index of the question for later stages: the one that is furthest from being met.
    worst: int = 0
    # The results so far; None for a result that does not exist. The verdicts on several questions are a family.
    family: FamilyVerdict | None = None
    verdict: Verdict | None = None
    explanation: Explanation | None = None
    chain: Chain | None = None

    @property
    def spec(self) -> Spec:
        """The spec of the worst question."""
        return self.specs[self.worst]

    @property
    def case(self) -> Case:
        """The case of the worst question, for all stages after the verdict."""
        return self.cases[self.worst]

    @property
    def model_name(self) -> str:
        """The name of the model's file without its folder, or what Python calls the model; empty without a model."""
        if self.case.model is None:
            return ""
        if isinstance(self.source, str):
            return self.source
        named = self.spec.model.path if self.source is None else None
        return Path(named).name if named is not None else self.case.model.name

    @property
    def identified(self) -> bool:
        """Whether the model has bytes, or there is no model: a Python function may have changed since the last run."""
        return self.case.model is None or bool(self.case.model.sha256)

    @property
    def network(self) -> bytes | None:
        """The network, which others need to check the certificate; None if the model is more than these bytes."""
        model = self.case.model
        if not isinstance(model, OnnxModel) or hashlib.sha256(model.content).hexdigest() != model.sha256:
            return None
        return model.content

    @property
    def facts(self) -> dict[str, RowFacts]:
        """Facts about the rows of each question's groups, in addition to its verdict."""
        given = None
        if self.labelled is not None and self.spec.text is None:
            given = read_labelled_rows(self.labelled, self.spec, self.label)
        return {str(case.spec.property): row_facts(case, given, self.source) for case in self.cases}


def audit(
    spec: Spec | str | Path,
    folder: str | Path,
    *,
    model: Any = None,
    data: Any = None,
    labelled: Any = None,
    label: str | None = None,
    repair: bool = True,
    seed: int | None = None,
    allow_constant: bool | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    restart: bool = False,
    progress: Callable[[Step], None] | None = None,
) -> Audit:
    """Verify a model, and write a report to a folder.

    If the verdict is UNFAIR or UNDECIDED, the audit explains the gap. If the verdict is UNFAIR, the audit also tries to
    repair the model.

    Parameters
    ----------
    spec
        A `Spec`, or the path of a spec file. If there are several questions, each gets a verdict, and delta covers all
        verdicts together. Only the worst question is explained and repaired. UNFAIR is worse than UNDECIDED. If several
        questions have the same verdict, the worst question is the one whose gap exceeds the threshold most.
    folder
        The folder to write. If the folder contains an interrupted audit of the same question, this audit is continued.
        If the model is a Python function, all stages are run again, because the function may have changed.
    model, data
        A model and rows that replace those of the spec, as for `verify`: files, objects, `python:` names, frames.
    labelled, label
        A file or a frame with labelled rows, and the name of the column with the true labels. The rows serve to measure
        the accuracy of a repaired model, and to find witnesses (counterfactual pairs) near real rows.
    repair
        Whether to repair an unfair model.
    seed, allow_constant, workers, executor
        As for `verify`.
    restart
        Discard the stages of an earlier audit in the folder.
    progress
        A function that is called when a stage starts, while the stage works, and when the stage ends.

    Returns
    -------
    Audit
        The verdict, and the path of the report.

    Raises
    ------
    AuditError
        If the folder cannot be used, or contains files that do not belong to this audit.
    """
    # A reader of the report needs narrow intervals, not only the verdict.
    changes = {"guarantee__seed": seed, "guarantee__allow_constant": allow_constant}
    questions = [
        revise(each, **changes, guarantee__refine=each.guarantee.refine or REFINE)
        for each in ([spec] if isinstance(spec, Spec) else load_specs(spec))
    ]
    name = f"groups by {' and '.join(spec.protected)}" if isinstance(spec, Spec) else Path(spec).name
    if isinstance(questions[0].population, UserFunction):
        raise AuditError(f"{name}: population.kind: an audit needs a population that the spec defines, not a function")
    source = model
    if is_url(model):
        from fairchain.models.adapters.from_service import Service

        # One object for all stages: no input is evaluated twice.
        model = source = Service(model)
    if is_path(model):
        if not Path(model).exists():
            raise AuditError(
                FILE_NOT_FOUND.format(path=model, remedy=f"give the file of a model, or {PYTHON}package.module:name")
            )
        questions, source = [revise(each, model__path=str(model)) for each in questions], None
    if label is not None and labelled is None:
        raise AuditError(f'label: "{label}" is a column of labelled rows; give the rows with --labelled')
    table = read_table(labelled) if labelled is not None else None
    # Rows that cannot be used are reported before the work.
    rows = read_labelled_rows(table, questions[0], label) if table is not None else None
    if len(questions) > 1:
        questions = divided([read_question(each) for each in questions])
        cases = family_cases(source, questions, data=data, network=True)
    else:
        cases = [prepare(source, questions[0], data=data, network=True)]
    if data is not None:
        questions = [msgspec.structs.replace(each, population=cases[0].spec.population) for each in questions]
    run = AuditRun(name, questions, cases, source, table, label)
    key, names = _key(run, rows, repair=repair), ("report.html", *ABOUT)
    done: dict[str, bytes] = {}
    with (
        open_checkpoints(Path(folder), key, restart=restart, names=names) as checkpoints,
        open_workers(workers, executor) as opened,
    ):
        try:
            run.workers = opened
            findings = _run(run, checkpoints, repair, progress or (lambda _: None), done)
        except OutputError as error:
            known = _record(done, "verdict.json", VerdictRecord)
            raise OutputError(f"{error}{f'; the verdict was {known.sentence}' if known else ''}") from None
    commands = _commands(run, done, Path(folder))
    repaired = "repaired.onnx" in done or "thresholds.json" in done
    decision = findings.verdict.verdict if run.family is None else run.family.conclusion
    return Audit(decision, repaired, Path(folder), commands, findings)


def _run(
    run: AuditRun, checkpoints: Checkpoints, repair: bool, report: Callable[[Step], None], done: dict[str, bytes]
) -> Findings:
    """Run the stages; `done` gets every file that they return, before it is written."""

    def stage(name: str, make: Callable[[AuditRun, Tell], Files], *, again: bool = False) -> None:
        def made() -> Files:
            try:
                files = make(run, lambda detail: report(Step(name, detail)))
            except (ChainError, ModelError, SpecError) as error:
                if name not in OPTIONAL:
                    raise
                files = {OPTIONAL[name]: to_json(NotPossible(str(error)))}
            done.update(files)
            return files

        report(Step(name))
        files, kept = checkpoints.stage(name, made, again=again or not run.identified)
        done.update(files)
        report(Step(name, finished=True, kept=kept))

    # The verdict is never read from the folder, because another program may have changed it there.
    stage("verify", verify_files, again=True)
    assert run.verdict is not None
    decision = run.verdict.conclusion
    if decision in ("UNFAIR", "UNDECIDED"):
        stage("explain", explain_files)
        run.explanation = _record(done, "explanation.json", Explanation)
    stage("chain", chain_files)
    if decision == "UNFAIR" and repair:
        stage("repair", repair_files)
        if run.family is not None and "repaired.onnx" in done:
            stage("verify repaired", lambda run, tell: repaired_questions_files(run, done["repaired.onnx"], tell))
    findings = _findings(run, done, checkpoints.folder)

    def report_files(_run: AuditRun, _tell: Tell) -> Files:
        texts = {
            "report.html": page(findings),
            "report.md": markdown(findings),
            "selection-rates.csv": selection_csv(findings.all_selections),
            "selection-rates-repaired.csv": selection_csv(findings.all_selections_after),
        }
        if "selection-rates.html" in findings.files:
            texts["selection-rates.html"] = selection_page(findings)
        return {name: text.encode() for name, text in texts.items() if name in ("report.html", *findings.files)}

    stage("report", report_files, again=True)
    return findings


def verify_files(run: AuditRun, tell: Tell) -> Files:
    """Verify all questions; the gaps of all pairs follow from the verdict on the worst one."""

    def severity(place: int) -> tuple[int, float]:
        # How far a question is from being met: by the verdict, then by the gap.
        verdict = family.verdicts[place]
        order = ("FAIR", "CONSTANT", "UNDECIDED", "UNFAIR").index(verdict.conclusion)
        beyond = verdict.gap.estimate - verdict.spec.property.threshold
        return order, -beyond if verdict.record.kind == "ratio" else beyond

    family = _verified(run, run.cases, tell)
    run.worst = max(range(len(family.verdicts)), key=severity)
    run.verdict = verdict = family.verdicts[run.worst]
    files = {"verdict.json": to_json(verdict)}
    if len(family.verdicts) > 1:
        run.family = family
        files["questions.json"] = to_json(family.record)
    if all(each.certifiable for each in family.verdicts):
        certificate = make_certificate(verdict, timed=False)
        if run.family is not None:
            certificate = make_family_certificate(run.family, timed=False)
        files["certificate.json"] = dump(certificate).encode()
        if run.network is not None:
            files["network.onnx"] = run.network
    pairs = all_pairs(run.case, verdict)
    if pairs is not None:
        files["all-pairs.json"] = to_json(pairs)
    return files


def _verified(run: AuditRun, cases: Sequence[Case], tell: Tell) -> FamilyVerdict:
    """Return the verdicts on all questions; an interrupt ends the audit."""

    def progress(at: Any) -> None:
        done = f"{at.evaluations:,} of {at.total:,} rows" if at.gap is None else f"{at.gap}"
        tell(f"{done} so far")

    family = verify_cases(cases, workers=run.workers, progress=progress, certify=True)
    if any(verdict.stopped == "interrupted" for verdict in family.verdicts):
        raise KeyboardInterrupt
    return family


def repaired_questions_files(run: AuditRun, content: bytes, tell: Tell) -> Files:
    """Verify all questions about the repaired network, which was accepted only for the worst one."""
    cases = [
        case_of(case.spec, OnnxModel.from_bytes(content, "repaired.onnx", case.spec), case.rows) for case in run.cases
    ]
    return {"questions-repaired.json": to_json(_verified(run, with_one_seed(cases), tell).record)}


def explain_files(run: AuditRun, tell: Tell) -> Files:
    """Explain the gap."""
    # Witnesses are searched in the population's own rows if it has rows.
    own = isinstance(run.spec.population, Table | Marginals) or run.spec.text is not None
    found = explain_case(
        run.case,
        rows=None if own else run.labelled,
        workers=run.workers,
        progress=lambda done, total: tell(f"{done:,} of {total:,} rounds"),
    )
    return {"explanation.json": to_json(found)}


def chain_files(run: AuditRun, tell: Tell) -> Files:
    """Learn the chain through the units with the largest effects, and write it for other tools too."""
    units, view = chain_units(run.explanation) if run.explanation is not None else ([], None)
    run.chain = learn_chain(
        None,
        run.case,
        units=units,
        view=view,
        workers=run.workers,
        progress=lambda done, _: tell(f"{done:,} rounds"),
    )
    return {f"chain.{form}": chain_text(run.chain, form).encode() for form in ("json", "prism", "drn", "dot")}


def repair_files(run: AuditRun, tell: Tell) -> Files:
    """Repair the model; if no candidate is accepted, the file lists the attempts."""
    found = repair_case(
        run.case,
        source=run.source,
        labelled=run.labelled,
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
        certificate = repair_certificate(found, "repaired.onnx", timed=False)
        if certificate is not None:
            files["repaired-certificate.json"] = certificate
    elif found.accepted:
        files["thresholds.json"] = thresholds_text(found).encode()
    return files


def chain_units(explanation: Explanation) -> tuple[list[str], Literal["last"] | None]:
    """Return the units with the largest effects, one of each layer, in the order of the network, and their view.

    A feature that is independent of the group has the same distribution in all groups, and is omitted. Of recurrent
    cells the chain has the last step.
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
    for record in (values, values.get("before"), values.get("after"), *values.get("questions", ())):
        if record is not None:
            record.pop("seconds", None)
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()


def _key(run: AuditRun, labelled: LabelledRows | None, **options: bool) -> str:
    """Return a hash of everything that the results depend on: the contents and names of files, not their folders."""
    spec = msgspec.to_builtins(run.spec)
    questions = [msgspec.to_builtins(each.property) for each in run.specs]
    contents = []
    named = [(run.spec.model, spec["model"]), (run.spec.population, spec["population"])]
    for part, values in [*named, *zip(run.spec.described, spec["feature"], strict=True)]:
        for key, path in files_of(part).items():
            values[key] = Path(path).name
            if values is not spec["model"]:
                contents.append(_checksums(Path(path)))
    parts = {
        "spec": spec,
        "questions": questions,
        "network": run.case.model.sha256 if run.case.model is not None else None,
        "files": contents,
        "rows": run.case.data_sha256,
        "labelled": labelled.sha256 if labelled is not None else None,
        "label": run.label,
        "options": options,
        "versions": _versions(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _checksums(path: Path) -> list[str]:
    """Return checksums of a file, or of all files of a folder by their names; files are read piece by piece."""
    inside = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    found = []
    for each in inside:
        try:
            with each.open("rb") as file:
                found.append(f"{each.name} {hashlib.file_digest(file, 'sha256').hexdigest()}")
        except OSError as error:
            raise AuditError(f"{each}: cannot be read ({error.strerror})") from None
    return found


def _versions() -> dict[str, str]:
    packages = {package: version(package) for package in ("numpy", "onnxruntime")}
    return {"fairchain": __version__, "python": platform.python_version(), **packages}


def _reasons(done: Mapping[str, bytes]) -> dict[str, str]:
    """Return why stages were not possible, by the name of their file."""
    read = {name: msgspec.json.decode(done[name], type=NotPossible) for name in OPTIONAL.values() if name in done}
    return {name: record.not_possible for name, record in read.items() if record.not_possible is not None}


def _record(done: Mapping[str, bytes], filename: str, kind: type[T]) -> T | None:
    """Return the record in a file; None if there is no such file, or if it has a reason instead."""
    if filename not in done or filename in _reasons(done):
        return None
    return msgspec.json.decode(done[filename], type=kind)


def _findings(run: AuditRun, done: Mapping[str, bytes], folder: Path) -> Findings:
    """Return the results that the report shows."""
    reasons = _reasons(done)
    before, after = (_record(done, f"questions{each}.json", FamilyRecord) for each in ("", "-repaired"))
    if run.chain is None and "chain.json" in done and "chain.json" not in reasons:
        run.chain = read_chain(folder / "chain.json")
    findings = Findings(
        title=run.name,
        verdict=msgspec.json.decode(done["verdict.json"], type=VerdictRecord),
        all_pairs=_record(done, "all-pairs.json", AllPairs),
        chain=run.chain,
        explanation=run.explanation,
        repair=_record(done, "repair.json", RepairRecord),
        recheck=_commands(run, done, None),
        files={filename: about for filename, about in ABOUT.items() if filename in done and filename not in reasons},
        versions=_versions(),
        left_out={Path(filename).stem: reason for filename, reason in reasons.items()},
        questions=() if before is None else before.questions,
        questions_after=() if after is None else after.questions,
        about=run.spec.about,
        model=run.model_name,
        facts=run.facts,
        features=tuple(described_feature(each) for each in run.spec.described),
        codes={each.name: code_names(each) for each in run.spec.described},
        decision_rule=described_decision(run.spec),
    )
    rates = bool(findings.all_selections)
    made = {
        "selection-rates.csv": rates,
        "selection-rates-repaired.csv": bool(findings.all_selections_after),
        "selection-rates.html": rates and findings.verdict.rows is not None,
        "report.md": True,
    }
    written = {filename: ABOUT[filename] for filename, is_made in made.items() if is_made}
    return replace(findings, files=findings.files | written)


def _commands(run: AuditRun, done: Mapping[str, bytes], folder: Path | None) -> tuple[str, ...]:
    """Return the commands that check the certificates: with the paths of all files, or without a folder by name."""

    def written(path: Path) -> str:
        return shlex.quote(path.name if folder is None else str(path))

    made, population = folder or Path(), run.spec.population
    rows = population.path if isinstance(population, Table | Marginals | Texts) else None
    data = f" --data {written(Path(rows))}" if rows is not None else ""
    if rows is None and run.case.rows is not None and getattr(population, "dataset", None) is None:
        # Rows in memory have no file: the checker has to name one.
        data = " --data ROWS.csv"
    given = made / "network.onnx" if run.network is not None else Path(run.spec.model.path or "")
    service = getattr(run.case.model, "service", None)
    model = shlex.quote(service.url) if service is not None else written(given)
    networks = {
        "certificate.json": model if run.case.model is not None else None,
        "repaired-certificate.json": written(made / "repaired.onnx"),
    }
    return tuple(
        f"fairchain recheck {written(made / name)}{f' --model {path}' if path is not None else ''}{data}"
        for name, path in networks.items()
        if name in done
    )
