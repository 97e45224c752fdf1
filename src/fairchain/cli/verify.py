"""The command `verify`: load the spec, apply the options of the command line, verify, print, write files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.exit_codes import VERDICT_EXIT_CODES
from fairchain.cli.options import PATH, naming, revised
from fairchain.cli.output import must_be_writable, show_then_write
from fairchain.cli.terminal import print_json, progress_of
from fairchain.errors import SpecError

if TYPE_CHECKING:
    from fairchain.spec import Spec
    from fairchain.verification.family import FamilyVerdict
    from fairchain.verification.verdict import Verdict

# Further options that replace a key of the spec; other commands use these names for their own effort.
BUDGET = {
    "epsilon": "guarantee__epsilon",
    "engine": "guarantee__engine",
    "rule": "guarantee__rule",
    "rounds": "guarantee__budget__rounds",
    "seconds": "guarantee__budget__seconds",
    "max_evaluations": "guarantee__budget__evaluations",
    "decision_threshold": "model__decision_threshold",
    "deterministic": "model__deterministic",
}
ROW_READINGS, TEXT_READINGS = ("population", "sample"), ("observed", "swapped")


@shared.command("Decide about the model of a spec.", "verify audit.toml --certificate certificate.json")
@click.argument("spec", type=PATH)
@shared.model
@shared.service
@shared.deterministic
@click.option("--weights", type=PATH, help="File with a torch state dict, for a model that is named as python:...")
@shared.data
@shared.choice(
    "--as",
    [*ROW_READINGS, *TEXT_READINGS],
    "Meaning of the rows: a whole population, a sample, observed texts, or swapped texts.",
    to="reading",
)
@shared.label
@shared.prediction
@click.option(
    "--population",
    help="Python function, or fairchain.Coupled object, that draws inputs: python:package.module:name. The Python code "
    "is executed.",
)
@shared.protected
@shared.kind
@shared.outcome
@shared.given
@shared.criterion
@shared.compare
@click.option(
    "--reference",
    help='Reference group, for example "Male" or "sex=Male & race=White". The threshold limits how far the rate of '
    "every other group is below the rate of this group.",
)
@click.option(
    "--formula",
    help='Property as a comparison of two probabilities: "P(hired | sex=Female) / P(hired | sex=Male) >= 0.8".',
)
@shared.min_size
@shared.shift
@shared.shift_of
@shared.threshold
@shared.delta
@click.option(
    "--epsilon",
    type=float,
    help="Estimate mode: continue until the half width of every interval is at most this number.",
)
@shared.choice(
    "--engine", ["auto", "sampling", "enumeration", "bounds", "counting"], "Algorithm that answers the question."
)
@shared.choice(
    "--rule",
    ["betting", "paper"],
    "Stopping rule: betting (sound), or paper (the rule of the original paper, which is not sound).",
)
@click.option(
    "--stop-at-verdict",
    is_flag=True,
    help="Stop at the verdict. By default, the sampling for an ONNX network continues for up to about 0.2 s, to make "
    "intervals narrower.",
)
@click.option("--rounds", type=float, help="Largest number of rounds.")
@click.option("--seconds", type=float, help="Largest number of seconds.")
@shared.max_evaluations
@shared.decision_threshold
@shared.allow_constant
@shared.show_texts
@shared.seed
@shared.workers
@shared.certificate
@click.option(
    "--checkpoint",
    type=PATH,
    metavar="FILE",
    help="Store every finished part of the run in FILE. If FILE exists, continue the run that is stored there. Needs "
    "--engine enumeration or sampling.",
)
@shared.junit
@shared.summary
@shared.as_json
@shared.quiet
def verify(
    spec: Path,
    model: str | None,
    weights: Path | None,
    population: str | None,
    workers: int | None,
    executor: str | None,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
    **changes: Any,
) -> int:
    """Decide whether the model of SPEC (.toml or .json) treats its groups alike.

    If SPEC contains several [[property]] tables, each property receives a verdict. The probability that any of these
    verdicts is wrong is at most delta. The result is fair if every verdict is fair, unfair if at least one verdict is
    unfair, and otherwise undecided or constant.

    \b
    Exit codes:
      0  fair
      1  unfair
      2  bad input, or a result that cannot be written
      3  undecided, or a constant model
    """  # noqa: D301
    from fairchain.models.load import import_named
    from fairchain.spec import load_specs

    files = result_files(changes)
    opened = shared.opened_model(model, changes, quiet=quiet or as_json)
    questions = load_specs(spec)
    try:
        questions = tuple(_changed(question, population, dict(changes)) for question in questions)
    except SpecError as error:
        raise SpecError(f"{spec}, with options of the command line: {error}") from None
    with naming(spec):
        if len(questions) > 1 and checkpoint is not None:
            raise SpecError("--checkpoint supports only one question, and the spec states several; leave it out")
        options: dict[str, Any] = {"weights": weights, "workers": workers, "executor": executor}
        options |= {"population": import_named(population) if population is not None else None}
        verdict: Verdict | FamilyVerdict
        with progress_of("verify", quiet or as_json) as progress:
            options |= {"certify": files["certificate"] is not None, "progress": progress}
            if len(questions) > 1:
                from fairchain.verification.family import verify_family

                verdict = verify_family(opened, questions, **options)
            else:
                from fairchain.verification import verify as run

                verdict = run(opened, questions[0], checkpoint=checkpoint, **options)
    shared.tell_requests(opened)
    return show_result(verdict, spec, files, as_json=as_json, quiet=quiet)


def result_files(options: dict[str, Any]) -> dict[str, Path | None]:
    """Remove the files of results from the options; raise an error before the work starts if one cannot be written."""
    files = {name: options.pop(name) for name in ("certificate", "junit", "summary")}
    for name, path in files.items():
        if path is not None:
            must_be_writable(path, f"--{name}")
    return files


def show_result(
    verdict: Verdict | FamilyVerdict, title: Path, files: dict[str, Path | None], *, as_json: bool, quiet: bool
) -> int:
    """Print a verdict, write the requested files, and return the exit code; `title` names the question."""
    from fairchain.cli.verdict_display import show_family, show_verdict
    from fairchain.system.atomic_write import append, place
    from fairchain.verification.verdict import Verdict

    if as_json:
        print_json(verdict.to_dict())
    elif isinstance(verdict, Verdict):
        show_verdict(verdict, brief=quiet)
    else:
        show_family(verdict, brief=quiet)
    records = [verdict.record] if isinstance(verdict, Verdict) else [each.record for each in verdict.verdicts]
    steps: list[Callable[[], None]] = []
    certificate = files["certificate"]
    if certificate is not None:
        from fairchain.certificates import write_certificate

        steps.append(partial(write_certificate, verdict, certificate))
    if (path := files["junit"]) is not None:
        from fairchain.report.junit import junit

        text = junit({f"{title.name}: {record.question}": record for record in records})
        steps.append(partial(place, {path: text.encode()}))
    if (path := files["summary"]) is not None:
        from fairchain.report.markdown import family_summary, for_pull_request

        name = certificate.name if certificate is not None else None
        text = "\n".join(for_pull_request(record, title=title.name, certificate=name) for record in records)
        if not isinstance(verdict, Verdict):
            text = f"{family_summary(verdict.record)}\n\n{text}"
        steps.append(partial(append, path, f"{text}\n".encode()))
    show_then_write(*steps)
    if certificate is not None and not (quiet or as_json):
        print(f"Certificate: {certificate}")
    return VERDICT_EXIT_CODES[verdict.conclusion]


def _changed(question: Spec, function: str | None, options: dict[str, Any]) -> Spec:
    """Return the spec with its keys replaced by the options of the command line."""
    from msgspec import to_builtins
    from msgspec.structs import replace

    from fairchain.spec import Ratio

    kind, current = options["kind"], question.property
    if kind is not None and (kind == "ratio") != isinstance(current, Ratio) and options["threshold"] is None:
        raise SpecError(
            f"property.threshold: {current.threshold:g} belongs to another kind; give one for --kind {kind}, for "
            f"example --threshold {0.8 if kind == 'ratio' else 0.1}"
        )
    if kind == "individual" and (options["compare"] or options["criterion"]):
        raise SpecError(
            'property.kind: "individual" compares an input with itself in another group; leave out --compare and '
            "--criterion"
        )
    before = to_builtins(question.population)
    changes = {key: options.pop(name) for name, key in BUDGET.items()}
    from fairchain.verification.sampling import REFINE

    if not options.pop("stop_at_verdict"):
        changes["guarantee__refine"] = question.guarantee.refine or REFINE
    elif question.guarantee.refine is not None:
        question = replace(question, guarantee=replace(question.guarantee, refine=None))
    names = ("data", "reading", "label", "prediction", "show_texts")
    population = _population(before, function, {name: options.pop(name) for name in names})
    return revised(question, options, population=population if population != before else None, **changes)


def _population(before: dict[str, Any], function: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of [population]; the kind changes if the command line gives a function or rows of a table."""
    data, reading = options["data"], options["reading"]
    label, prediction, show_texts = options["label"], options["prediction"], options["show_texts"]
    population: dict[str, Any] = {"kind": "callable"} if function is not None else dict(before)
    if reading in TEXT_READINGS and population["kind"] != "text":
        raise SpecError(f"population.kind: --as {reading} needs texts, and this population has none; leave it out")
    if data is not None and population["kind"] == "text":
        population["dataset"] = None
    if (reading in ROW_READINGS or (data and prediction)) and population["kind"] != "table":
        population = {"kind": "table", "as": "sample"}
    if show_texts is not None and population["kind"] != "text":
        raise SpecError("population.show_texts: --show-texts needs texts, and this population has none; leave it out")
    if population["kind"] != "table" and (prediction or (label and population["kind"] != "text")):
        raise SpecError(
            f"population.kind: {'--label' if label else '--prediction'} names a column, and there is no table; give "
            "one with --data FILE --as sample (or --as population)"
        )
    drawn = {"network": "from a Bayesian network", "uniform": "uniformly"}
    if data is not None and population["kind"] in drawn:
        raise SpecError(
            f"population.kind: the spec draws inputs {drawn[population['kind']]} and --data gives rows; state their "
            "meaning: --as population (the whole population) or --as sample (of a larger population)"
        )
    given = {"path": None if data is None else str(data), "as": reading, "label": label, "prediction": prediction}
    given |= {"show_texts": show_texts}
    return population | {key: value for key, value in given.items() if value is not None}
