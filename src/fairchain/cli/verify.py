"""The command `verify`: what the spec says and the command line changes, asked and shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli.certificate_views import junit_file, summary_file, write_junit, write_summary
from fairchain.cli.options import EXIT_CODES, PATH, allow_constant, as_json, quiet, seed
from fairchain.cli.output import must_be_writable, show_then_write
from fairchain.errors import ModelError, SpecError

if TYPE_CHECKING:
    from fairchain.spec import Spec
    from fairchain.verification.verdict import Verdict

# Options that replace a key of the spec: the name of the parameter, and the key with double underscores for dots.
KEYS = {
    "kind": "property__kind",
    "outcome": "property__outcome",
    "given": "property__given",
    "criterion": "property__criterion",
    "compare": "property__compare",
    "min_size": "property__min_size",
    "threshold": "property__threshold",
    "delta": "guarantee__delta",
    "epsilon": "guarantee__epsilon",
    "rule": "guarantee__rule",
    "rounds": "guarantee__budget__rounds",
    "seconds": "guarantee__budget__seconds",
    "seed": "guarantee__seed",
    "allow_constant": "guarantee__allow_constant",
}
ROW_READINGS, TEXT_READINGS = ("population", "sample"), ("observed", "swapped")
CRITERIA = ["demographic_parity", "equal_opportunity", "equalized_odds"]


@click.command(
    short_help="The verdict on a spec.", epilog="Example: fairchain verify audit.toml --certificate certificate.json"
)
@click.argument("spec", type=PATH)
@click.option("--model", help="Instead of the spec's model.path: a file, or python:package.module:name.")
@click.option("--weights", type=PATH, help="A torch state dict for a model that is given as python:...")
@click.option("--data", type=PATH, help="Instead of the spec's population.path: a CSV or Parquet file, or texts.")
@click.option("--as", "reading", type=click.Choice([*ROW_READINGS, *TEXT_READINGS]), help="What the rows or texts are.")
@click.option("--label", help="Column with the true labels.")
@click.option("--predictions", type=PATH, help="A table with recorded decisions, asked in the network's place.")
@click.option("--prediction", help="Its column with the decisions; by default the spec's, or prediction.")
@click.option(
    "--population",
    help="A Python function, or a fairchain.Coupled one, that draws inputs: python:package.module:name. Runs its code.",
)
@click.option("--protected", multiple=True, help="Instead of the spec's; repeat for combinations.")
@click.option("--kind", type=click.Choice(["difference", "ratio", "individual"]), help="What is measured.")
@click.option("--outcome", help="Instead of the spec's.")
@click.option("--given", help='Only people for whom this holds, for example "hours >= 40".')
@click.option("--criterion", type=click.Choice(CRITERIA), help="Whose rates are compared.")
@click.option("--compare", type=click.Choice(["groups", "overall", "average"]), help="What a group is compared with.")
@click.option("--min-size", type=float, help="Leave out smaller groups: rows, or below 1 a share.")
@click.option("--threshold", type=float, help="Largest gap, or smallest ratio, that still counts as fair.")
@click.option("--delta", type=float, help="Probability of a wrong verdict, at most.")
@click.option("--epsilon", type=float, help="Estimate mode: half width of every interval.")
@click.option("--rule", type=click.Choice(["betting", "paper"]), help="betting is sound; paper is not.")
@click.option("--rounds", type=float, help="Budget in rounds.")
@click.option("--seconds", type=float, help="Budget in seconds.")
@allow_constant
@seed
@click.option("--workers", type=click.IntRange(min=1), help="Threads; by default one for each core.")
@click.option("--certificate", type=PATH, help="Write a certificate to this file.")
@junit_file
@summary_file
@as_json
@quiet
def verify(
    spec: Path,
    model: str | None,
    weights: Path | None,
    population: str | None,
    workers: int | None,
    certificate: Path | None,
    junit: Path | None,
    summary: Path | None,
    as_json: bool,
    quiet: bool,
    **changes: Any,
) -> int:
    """Decide whether the network of SPEC (.toml or .json) treats its groups alike.

    Exit code 0 fair, 1 unfair, 3 undecided or a constant model, 2 bad input or a result that cannot be written.
    """
    from fairchain.spec import load_spec

    for path, option in ((certificate, "--certificate"), (junit, "--junit"), (summary, "--summary")):
        if path is not None:
            must_be_writable(path, option)
    question = load_spec(spec)
    try:
        question = _changed(question, population, **changes)
    except SpecError as error:
        raise SpecError(f"{spec}, as changed by the command line: {error}") from None
    try:
        verdict = run_verify(
            question,
            model,
            weights=weights,
            population=population,
            workers=workers,
            certify=certificate is not None,
            quiet=quiet or as_json,
        )
    except (ModelError, SpecError) as error:
        # The other file is named already; the keys to mend stand in this one.
        raise type(error)(f"{error} (spec: {spec})") from None
    if as_json:
        print(json.dumps(verdict.to_dict(), indent=1))
    else:
        from fairchain.cli.verdict_display import show_verdict

        show_verdict(verdict, brief=quiet)
    show_then_write(*_files(verdict, spec, certificate, junit, summary, silent=quiet or as_json))
    return EXIT_CODES[verdict.conclusion]


def _files(
    verdict: Verdict, spec: Path, certificate: Path | None, junit: Path | None, summary: Path | None, *, silent: bool
) -> Iterator[Callable[[], None]]:
    """Yield a step for each file that is wanted."""
    if certificate is not None:
        path = certificate

        def certify() -> None:
            from fairchain.certificates import write_certificate

            write_certificate(verdict, path)
            if not silent:
                print(f"Certificate: {path}")

        yield certify
    if junit is not None:
        yield partial(write_junit, verdict, spec, junit)
    if summary is not None:
        yield partial(write_summary, verdict, spec, summary, certificate)


def _changed(question: Spec, function: str | None, *, protected: tuple[str, ...], **options: Any) -> Spec:
    """The spec with what the command line says in place of its own."""
    from msgspec import to_builtins

    from fairchain.spec import revise

    _check_kind(question, options["kind"], options)
    before = to_builtins(question.population)
    people = _population(before, function, **{name: value for name, value in options.items() if name not in KEYS})
    return revise(
        question,
        property__protected=list(protected) or None,
        population=people if people != before else None,
        **{KEYS[name]: value for name, value in options.items() if name in KEYS},
    )


def _check_kind(question: Spec, kind: str | None, options: dict[str, Any]) -> None:
    """What the spec and the other options say must make sense for the kind of property that is asked for."""
    from fairchain.spec import Ratio

    if kind is not None and (kind == "ratio") != isinstance(question.property, Ratio) and options["threshold"] is None:
        raise SpecError(
            f"property.threshold: {question.property.threshold:g} was meant for another kind; give one for "
            f"--kind {kind}, for example --threshold {0.8 if kind == 'ratio' else 0.1}"
        )
    if kind == "individual" and (options["compare"] or options["criterion"]):
        raise SpecError('property.kind: "individual" compares a person with themselves; drop --compare and --criterion')


def _population(
    before: dict[str, Any],
    function: str | None,
    *,
    data: Path | None,
    reading: str | None,
    label: str | None,
    predictions: Path | None,
    prediction: str | None,
) -> dict[str, Any]:
    """The keys of [population]: of another kind where the command line gives a function, or rows of a table."""
    people: dict[str, Any] = {"kind": "callable"} if function is not None else dict(before)
    if reading in TEXT_READINGS and people["kind"] != "text":
        raise SpecError(f"population.kind: --as {reading} is about texts, and this population has none; drop it")
    if data is not None and people["kind"] == "text":
        people["dataset"] = None
    if (reading in ROW_READINGS or predictions) and people["kind"] != "table":
        people = {"kind": "table", "as": "sample"}
    if predictions is not None:
        people["prediction"] = prediction or people.get("prediction") or "prediction"
    if people["kind"] != "table" and (label or prediction):
        option = "--label" if label else "--prediction"
        raise SpecError(
            f"population.kind: {option} names a column, and there is no table; give one with --data FILE --as sample "
            "(or --as population), or --predictions FILE"
        )
    _check_rows(people["kind"], data, predictions)
    path = str(predictions or data) if predictions or data else None
    given = {"path": path, "as": reading, "label": label, "prediction": prediction}
    return people | {key: value for key, value in given.items() if value is not None}


def _check_rows(kind: str, data: Path | None, predictions: Path | None) -> None:
    """Rows must come from one table, and must not be given to a population that draws people without any."""
    if predictions is not None and data is not None:
        raise SpecError("--predictions and --data are two tables; give one, with the decisions in it")
    drawn = {"network": "from a Bayesian network", "uniform": "uniformly"}
    if data is not None and kind in drawn:
        raise SpecError(
            f"population.kind: the spec draws people {drawn[kind]} and --data gives rows; say what they are: "
            "--as population (everybody) or --as sample (of a larger population)"
        )


def run_verify(
    question: Spec,
    model: str | None = None,
    *,
    weights: Path | None = None,
    population: str | None = None,
    workers: int | None = None,
    certify: bool = False,
    quiet: bool,
) -> Verdict:
    """Verify with progress on the terminal."""
    from fairchain.cli.progress import verify_progress
    from fairchain.verification import verify as ask

    function = None
    if population is not None:
        from fairchain.models.load import import_named

        function = import_named(population)
    with verify_progress(quiet) as progress:
        return ask(
            model,
            question,
            weights=weights,
            population=function,
            workers=workers,
            progress=progress,
            certify=certify,
        )
