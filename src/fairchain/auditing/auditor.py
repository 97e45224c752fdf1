"""The paper's Algorithm 1 whole: verify and, if the network is not fair, say why and repair it; then the report.

Each stage leaves files of plain values, and the report is made from these alone. So a run that was stopped ends with
the same bytes as one that was not; times are in none of them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fairchain._version import __version__
from fairchain.auditing.checkpoints import Checkpoints, Files, shelf_in
from fairchain.auditing.stages import (
    NOT_DONE,
    AuditContext,
    chain_files,
    explain_files,
    repair_files,
    survey_files,
    verify_files,
)
from fairchain.errors import AuditError, OutputError
from fairchain.explaining.result import Explanation
from fairchain.models import load_model
from fairchain.repairing.result import RepairRecord
from fairchain.report.findings import Findings
from fairchain.spec import Marginals, Spec, Table, load_spec, revise
from fairchain.spec.files import files_of
from fairchain.spec.schema import Callable as CallablePopulation
from fairchain.spec.schema import Texts
from fairchain.verification.all_pairs import AllPairs
from fairchain.verification.record import VerdictRecord

ABOUT = {
    "certificate.json": "the verdict with every count behind it",
    "verdict.json": "the verdict, with those who are decided otherwise as another group",
    "all-pairs.json": "estimates for every group and pair",
    "explanation.json": "every feature and neuron with its influence",
    "chain.json": "the learned Markov chain with everything it holds",
    "chain.prism": "the chain for PRISM and Storm",
    "chain.drn": "the chain for Storm",
    "chain.dot": "the chain as a drawing, for Graphviz",
    "repaired.onnx": "the repaired network",
    "repaired-certificate.json": "the verdict on the repaired network",
    "repair.json": "what the repair tried, and what it costs",
    "report.md": "this report in Markdown",
}
T = TypeVar("T")
# Stages that may not be possible, by the file that then says why.
PARTS = {"explanation.json": "explanation", "chain.json": "chain", "repair.json": "repair"}


@dataclass(frozen=True)
class Step:
    """How far an audit is: a stage that began, goes on (`detail` says how far), or is finished, now or before."""

    stage: str
    detail: str = ""
    finished: bool = False
    kept: bool = False


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit came to: FAIR, UNFAIR, UNDECIDED or CONSTANT of the network as it is, and where everything is.

    `recheck` are the commands with which the certificates can be checked from here.
    """

    decision: str
    repaired: bool
    folder: Path
    recheck: tuple[str, ...]
    findings: Findings

    @property
    def report(self) -> Path:
        """The page to read."""
        return self.folder / "report.html"


def audit(
    spec: str | Path,
    folder: str | Path,
    *,
    model: str | Path | None = None,
    data: str | Path | None = None,
    label: str | None = None,
    repair: bool = True,
    seed: int | None = None,
    allow_constant: bool | None = None,
    workers: int | None = None,
    fresh: bool = False,
    progress: Callable[[Step], None] | None = None,
) -> Audit:
    """Verify, explain, repair and report, in a folder that keeps what is finished.

    Parameters
    ----------
    spec
        The path of a spec file.
    folder
        Where to write. An audit of the same question that was stopped there goes on.
    model
        A network's file instead of the spec's.
    data, label
        Labelled rows, for the accuracy of a repaired network and for witnesses near to real people; and their column
        with the true labels.
    repair
        Whether to repair an unfair network.
    seed, allow_constant, workers
        As for `verify`.
    fresh
        Begin again, whatever the folder holds.
    progress
        Called while stages begin, go on and end.

    Returns
    -------
    Audit
        The verdict, and where the report is.

    Raises
    ------
    AuditError
        If the folder cannot be used, or holds something else.
    """
    changes = {"guarantee__seed": seed, "guarantee__allow_constant": allow_constant}
    question = _question(spec, model, data, label, changes, workers)
    key, names = _key(question, repair=repair), ("report.html", *ABOUT)
    done: dict[str, bytes] = {}
    with shelf_in(Path(folder), key, fresh=fresh, names=names) as shelf:
        try:
            findings = _stages(question, shelf, repair, progress or (lambda _: None), done)
        except OutputError as error:
            raise OutputError(f"{error}{_known(done)}") from None
    commands = _commands(question, done, Path(folder))
    return Audit(findings.verdict.verdict, "repaired.onnx" in done, Path(folder), commands, findings)


def _known(done: Mapping[str, bytes]) -> str:
    """Return what is known of the verdict, for the message that it could not be written."""
    found = _record(done, "verdict.json", VerdictRecord)
    return "" if found is None else f"; the verdict was {found.sentence}"


def _stages(
    question: AuditContext, shelf: Checkpoints, repair: bool, tell: Callable[[Step], None], done: dict[str, bytes]
) -> Findings:
    """Run the stages; every file that they make goes into `done`, before it is written."""

    def stage(name: str, make: Callable[[AuditContext], Files], *, again: bool = False) -> None:
        tell(Step(name))
        asked = replace(question, tell=lambda detail: tell(Step(name, detail)))

        def made() -> Files:
            files = make(asked)
            done.update(files)
            return files

        files, kept = shelf.stage(name, made, again=again)
        done.update(files)
        tell(Step(name, finished=True, kept=kept))

    # The verdict is never taken from the folder, where anybody may have written another one.
    stage("verify", verify_files, again=True)
    decision = msgspec.json.decode(done["verdict.json"], type=VerdictRecord).verdict
    stage("survey", survey_files)
    if decision in ("UNFAIR", "UNDECIDED"):
        stage("explain", explain_files)
    stage("chain", lambda asked: chain_files(asked, _record(done, "explanation.json", Explanation)))
    if decision == "UNFAIR" and repair:
        stage("repair", repair_files)
    findings = _findings(question, done, shelf.folder)
    stage("report", lambda _: _report_files(findings), again=True)
    return findings


def _question(
    spec: str | Path,
    model: str | Path | None,
    data: str | Path | None,
    label: str | None,
    changes: Mapping[str, Any],
    workers: int | None,
) -> AuditContext:
    asked = revise(load_spec(spec), **changes)
    if isinstance(asked.population, CallablePopulation):
        raise AuditError(f"{spec}: population.kind: an audit needs people that the spec itself can draw")
    if model is not None:
        if not Path(model).is_file():
            raise AuditError(f"{model}: there is no such network; an audit is of a file")
        asked = revise(asked, model__path=str(model))
    recorded = getattr(asked.population, "prediction", None) is not None
    network = load_model(asked.model.path, asked) if not recorded or asked.model.path is not None else None
    if label is not None and data is None:
        raise AuditError(
            f'label: "{label}" is a column of labelled rows, and none were given; give them with --labelled'
        )
    if data is not None:
        from fairchain.repairing.labelled_rows import labelled_rows

        # Before the work: rows that cannot be used are better known now.
        labelled_rows(data, asked, label)
    return AuditContext(Path(spec).name, asked, network, Path(data) if data is not None else None, label, workers)


def _key(question: AuditContext, **options: bool) -> str:
    """Of everything that the results depend on; where files lie does not matter, what is in them does."""
    spec = msgspec.to_builtins(question.spec)
    named = list(_files(question.spec, spec))
    for written, key, path in named:
        written[key] = path.name
    parts = {
        "spec": spec,
        "network": question.network.sha256 if question.network is not None else None,
        "files": [_content(path) for written, _, path in named if written is not spec["model"]],
        "data": _content(question.data) if question.data is not None else None,
        "label": question.label,
        "options": options,
        "versions": _versions(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _files(spec: Spec, plain: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Path]]:
    """Every key of a spec that names a file: the part that it stands in, as plain values, the key, and the file."""
    parts = [(spec.model, plain["model"]), (spec.population, plain["population"])]
    for part, written in [*parts, *zip(spec.described, plain["feature"], strict=True)]:
        for key, path in files_of(part).items():
            yield written, key, Path(path)


def _content(path: Path) -> list[str]:
    """Checksums of a file, or of all files of a folder by their names; read piece by piece, however large."""
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
    return {
        "fairchain": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "onnxruntime": version("onnxruntime"),
    }


def _only_says_why(done: Mapping[str, bytes], filename: str) -> bool:
    """Whether a stage's file says why there is nothing."""
    return filename in done and NOT_DONE in json.loads(done[filename])


def _record(done: Mapping[str, bytes], filename: str, kind: type[T]) -> T | None:
    """Return the record in a file; None if there is no such file, or it only says why there is no record."""
    if filename not in done or _only_says_why(done, filename):
        return None
    return msgspec.json.decode(done[filename], type=kind)


def _findings(question: AuditContext, done: Mapping[str, bytes], folder: Path) -> Findings:
    from fairchain.chain.formats import read_chain

    learned = "chain.json" in done and not _only_says_why(done, "chain.json")
    why_not = {
        filename: str(json.loads(done[filename])[NOT_DONE]) for filename in PARTS if _only_says_why(done, filename)
    }
    return Findings(
        title=question.name,
        verdict=msgspec.json.decode(done["verdict.json"], type=VerdictRecord),
        all_pairs=_record(done, "all-pairs.json", AllPairs),
        chain=read_chain(folder / "chain.json") if learned else None,
        explanation=_record(done, "explanation.json", Explanation),
        repair=_record(done, "repair.json", RepairRecord),
        recheck=_commands(question, done, None),
        files={
            filename: about
            for filename, about in ABOUT.items()
            if filename == "report.md" or (filename in done and filename not in why_not)
        },
        versions=_versions(),
        left_out={PARTS[filename]: reason for filename, reason in why_not.items()},
    )


def _commands(question: AuditContext, done: Mapping[str, bytes], folder: Path | None) -> tuple[str, ...]:
    """How to check the certificates: with the files where they are, or without a folder by their names alone."""

    def written(path: Path) -> str:
        return shlex.quote(path.name if folder is None else str(path))

    made, population = folder or Path(), question.spec.population
    rows = population.path if isinstance(population, Table | Marginals | Texts) else None
    data = f" --data {written(Path(rows))}" if rows is not None else ""
    networks = {
        "certificate.json": Path(question.spec.model.path or "") if question.network is not None else None,
        "repaired-certificate.json": made / "repaired.onnx",
    }
    return tuple(
        f"fairchain recheck {written(made / name)}{f' --model {written(path)}' if path is not None else ''}{data}"
        for name, path in networks.items()
        if name in done
    )


def _report_files(findings: Findings) -> Files:
    from fairchain.report.markdown import markdown
    from fairchain.report.page import page

    return {"report.html": page(findings).encode(), "report.md": markdown(findings).encode()}
