"""Options that several commands share, each with one name and one meaning, and the spec keys that options replace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.errors import ModelError, SpecError
from fairchain.messages import in_a_line

if TYPE_CHECKING:
    from fairchain.spec import Spec

# Former options of each command, with their replacements.
RENAMED_OPTIONS = {
    "fairchain demo": {"--save": "--output"},
    "fairchain init": {"--out": "--output", "--uniform": "--as uniform"},
    "fairchain verify": {"--predictions": "--data FILE --prediction COLUMN"},
    "fairchain repair": {"--data": "--labelled", "--units": "--max-units"},
    "fairchain query": {"--states": "--units", "--state": "--start", "--kind": "--chain"},
    "fairchain export": {"--states": "--units", "--kind": "--chain", "--to": "--format"},
    "fairchain audit": {"--data": "--labelled", "--fresh": "--restart"},
    "fairchain data get": {"--csv": "--output"},
}

# Options that replace a key of the spec, in every command that has them; double underscores are dots.
KEYS = {
    "property": (
        *("protected", "kind", "outcome", "given", "criterion", "compare", "reference", "min_size", "threshold"),
        *("formula", "shift", "shift_of"),
    ),
    "guarantee": ("delta", "seed", "allow_constant"),
    "population": ("show_texts",),
}
PATH = click.Path(path_type=Path)
Command = Callable[..., Any]


def command(summary: str, example: str) -> Callable[[Command], click.Command]:
    """Return a command with its line in the list of commands, and an example below its help."""
    return click.command(short_help=summary, epilog=f"Example: fairchain {example}")


def option(
    name: str, kind: Any, description: str, *, to: str | None = None, **settings: Any
) -> Callable[[Command], Command]:
    """Return an option that shows its default; `to` is the parameter's name if it differs from the option's."""
    shown = "default" in settings
    return click.option(name, *([to] if to else []), type=kind, help=description, show_default=shown, **settings)


def choice(name: str, values: Sequence[str], description: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option that takes one of several words."""
    return option(name, click.Choice(values), description, **settings)


def count(name: str, description: str, *, least: int = 1, **settings: Any) -> Callable[[Command], Command]:
    """Return an option that takes a whole number."""
    return option(name, click.IntRange(min=least), description, **settings)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return several options as one, in the order of `--help`."""
    return lambda command: reduce(lambda made, each: each(made), reversed(options), command)


model = click.option(
    "--model",
    help="Model to use instead of the spec's model.path: a file, python:package.module:name, or the address of a "
    "service (http://HOST/v2/models/NAME, http://HOST/invocations).",
)
# Options of a model that is a service; --journal also applies to Python code.
SERVICE = (
    *("journal", "connections", "rows_per_request", "requests_per_second", "timeout", "header_from"),
    "service_inputs",
)
service = together(
    option(
        "--journal",
        PATH,
        "Store each answer of a service or of Python code in FILE, and reuse the stored answers. For recheck, FILE "
        "must be new.",
        metavar="FILE",
    ),
    count("--connections", "Number of simultaneous requests to a service; by default 8."),
    count("--rows-per-request", "Largest number of inputs in a request to a service; by default 32."),
    option(
        "--requests-per-second",
        click.FloatRange(min=0, min_open=True),
        "Largest number of requests per second to a service.",
    ),
    option(
        "--timeout",
        click.FloatRange(min=0, min_open=True),
        "Time limit of a request to a service, in seconds; by default 30.",
    ),
    click.option(
        "--header-from",
        multiple=True,
        metavar="VARIABLE",
        help="Environment variable that contains a header for a service, such as Authorization: Bearer ...; "
        "repeatable.",
    ),
    choice(
        "--service-inputs",
        ["columns", "array"],
        "Input format, if the service does not state it: one input for each feature (columns), or one array of numbers "
        "(array).",
    ),
)
workers = together(
    count("--workers", "Number of threads, or of processes with --executor; by default one for each core."),
    click.option(
        "--executor",
        metavar="NAME",
        help="Where to compute: processes, dask://HOST:PORT or ray://HOST:PORT; by default threads. The counts of "
        "decisions do not depend on this option, unless a time limit ends the run.",
    ),
)
data = click.option(
    "--data", type=PATH, help="File with the rows or texts of the population, instead of the spec's population.path."
)
label = click.option("--label", help="Column with the true labels; by default the column that the spec names.")
labelled = click.option(
    "--labelled", type=PATH, help="Table of rows with true labels, on which a repair tries to keep the accuracy."
)
protected = click.option(
    "--protected", multiple=True, help="Feature whose groups are compared. Repeat the option to compare combinations."
)
text = click.option("--text", help="Column that contains the texts, for a model that reads a text.")
terms = click.option("--terms", help="Terms by which texts mention groups: religion, race, gender, or a file.")
show_texts = click.option(
    "--show-texts",
    is_flag=True,
    default=None,
    help="Quote texts in full. By default, offensive words and personal data are masked, and long texts are shortened.",
)
outcome = click.option("--outcome", help="Label whose probability is compared.")
threshold = click.option("--threshold", type=float, help="Largest difference, or smallest ratio, that counts as fair.")
delta = click.option("--delta", type=float, help="Largest error probability (delta).")
allow_constant = click.option(
    "--allow-constant", is_flag=True, default=None, help="Accept a model that gives every input the same decision."
)
seed = click.option(
    "--seed", type=int, help="Seed of the random numbers; by default derived from the model, the spec and the data."
)
force = click.option("--force", is_flag=True, help="Overwrite the file.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Print only the result, and no progress.")
ignore = click.option("--ignore", multiple=True, help="Column that is not an input of the model; repeatable.")
decision = choice(
    "--decision",
    ["argmax", "logit", "probability", "score", "label"],
    "Meaning of the model's output, if fairchain cannot infer the meaning.",
)
decision_threshold = click.option(
    "--decision-threshold",
    type=float,
    help="The model decides for the second label if the probability or score is above this number.",
)
labels = click.option(
    "--labels",
    multiple=True,
    help="Name of a label. Give the option once for each label, in the model's order. For a score, the first label is "
    "for scores up to the decision threshold.",
)
model_output = click.option("--model-output", help="Output to read, if the network has several outputs.")
prediction = click.option("--prediction", help="Column with recorded decisions, which are used instead of a model.")
kind = choice(
    "--kind",
    ["difference", "ratio", "individual"],
    "difference, ratio: compare the rates of groups; individual: limit the share of individuals whose decision changes "
    "if only the protected features change.",
)
given = click.option("--given", help='Compare only inputs that meet this condition, for example "hours >= 40".')
criterion = choice(
    "--criterion",
    ["demographic_parity", "equal_opportunity", "equalized_odds"],
    "demographic_parity: compare rates on all inputs; equal_opportunity: on inputs whose true label is the outcome; "
    "equalized_odds: on the inputs of each true label, separately.",
)
compare = choice(
    "--compare",
    ["groups", "overall", "average"],
    "groups: compare groups with each other; overall: compare each group with the overall population; average: compare "
    "the mean of the groups' rates with the rate of the overall population.",
)
min_size = click.option(
    "--min-size",
    type=float,
    help="Smallest size of a compared group: a number of rows or texts, or a share. A number below 1 is a share.",
)
shift = click.option(
    "--shift",
    type=float,
    metavar="FACTOR",
    help="Ask for one verdict over all populations in which the frequency of each input is between 1/FACTOR and FACTOR "
    "times the assumed frequency.",
)
shift_of = choice(
    "--shift-of",
    ["each_group", "all_groups_alike"],
    "Whether --shift changes each group separately, or all groups in the same way.",
)
max_evaluations = count(
    "--max-evaluations",
    "Largest number of evaluations of the model. If this limit leaves rows of a table unevaluated, the bounds are "
    "wider, but still valid.",
)
deterministic = click.option(
    "--deterministic/--not-deterministic",
    default=None,
    help="Whether the model always gives the same answer to the same input. Use --not-deterministic for a random "
    "model.",
)
certificate = click.option("--certificate", type=PATH, help="Write a certificate to this file.")
junit = click.option("--junit", type=PATH, help="Write the verdict to this file as JUnit XML, for build servers.")
summary = click.option(
    "--summary",
    type=PATH,
    help="Append the verdict to this file in Markdown, for a pull request or $GITHUB_STEP_SUMMARY.",
)


def units(description: str) -> Callable[[Command], Command]:
    """Return the option for units; a layer means each of its neurons, or in a chain one clustered unit."""
    return click.option("--units", multiple=True, help=description)


def output(description: str, **settings: Any) -> Callable[[Command], Command]:
    """Return the option for the file or folder that a command writes; the suffix of a file determines its format."""
    return click.option("-o", "--output", type=PATH, help=description, **settings)


def write_or_print(text: str, path: Path | None) -> None:
    """Write a text to the file of `--output`, or to standard output without one."""
    if path is None:
        print(text, end="")
        return
    from fairchain.system.atomic_write import place

    place({path: text.encode()})


def opened_model(model: Any, options: dict[str, Any], *, quiet: bool = True) -> Any:
    """Return the model that the command line names: a service or journaled Python code as an object, others unchanged.

    Remove the options of services from `options`.
    """
    from fairchain.models.load import PYTHON, import_named, is_url

    def tell(text: str) -> None:
        click.echo(f"fairchain: {in_a_line(text)}", err=True)

    given = {name: options.pop(name, None) for name in SERVICE}
    given = {name: value for name, value in given.items() if value not in (None, ())}
    if is_url(model):
        from fairchain.models.adapters.from_service import Service
        from fairchain.models.adapters.http_client import BAD_HEADER

        headers = {}
        for variable in given.pop("header_from", ()):
            name, colon, value = os.environ.get(variable, "").strip().partition(":")
            if not colon:
                raise ModelError(BAD_HEADER.format(source=f"environment variable {in_a_line(variable)}"))
            headers[name.strip()] = value.strip()
        service = Service(model, headers=headers, inputs=given.pop("service_inputs", None), **given)
        service.tell = None if quiet else tell
        return service
    if not given:
        return model
    if set(given) != {"journal"} or not str(model).startswith(PYTHON):
        name = next((name for name in given if name != "journal"), "journal").replace("_", "-")
        what = "a service (http://...) or Python code (python:...)" if name == "journal" else "a service (http://...)"
        raise ModelError(f"--{name}: belongs to a model that is {what}; leave it out")
    from fairchain.models.journal import journaled

    made = journaled(import_named(model), given["journal"])
    if made.journal.note:
        tell(made.journal.note)
    return made


def tell_requests(model: Any) -> None:
    """Print the requests to a service, after the run."""
    if getattr(model, "tell", None) is not None:
        model.tell(model.summary)


def revised(spec: Spec, options: dict[str, Any], **changes: Any) -> Spec:
    """Return the spec with its keys replaced by options and further changes; remove these options from `options`."""
    from fairchain.spec import revise

    for table, names in KEYS.items():
        given = {f"{table}__{name}": options.pop(name) for name in names if name in options}
        # click gives an empty tuple for a repeatable option that is not set.
        changes |= {key: value for key, value in given.items() if value != ()}
    if changes.get("property__formula") is not None:
        # A formula replaces the whole property.
        changes |= {"property__kind": "formula"}
    return revise(spec, **changes)


@contextmanager
def naming(spec: Path) -> Iterator[None]:
    """Prefix errors that name another file with the spec's file, which contains the keys to change."""
    try:
        yield
    except (ModelError, SpecError) as error:
        raise type(error)(f"{error} (spec: {spec})") from None
