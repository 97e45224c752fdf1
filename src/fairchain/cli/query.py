"""The commands `query` and `export`: check or write a chain that is learned or read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairchain.cli import options as shared
from fairchain.cli.options import PATH, revised
from fairchain.cli.output import must_be_writable
from fairchain.cli.terminal import print_json, progress_of
from fairchain.messages import plain

if TYPE_CHECKING:
    from fairchain.chain import Chain

SPECS = (".toml", ".json")
CHAIN_VIEWS, COLUMN_KINDS = ("folded", "unrolled", "last"), ("product", "shared")
ESTIMATORS, STOPPING_RULES = ("frequency", "laplace", "good-turing"), ("sound", "paper")
# Formats with a single file; "explicit" writes three.
PRINTED = ["prism", "drn", "dot", "json"]


# Options for learning a chain; a chain that is read from a file accepts none of them.
learning = shared.together(
    click.option(
        "--model",
        help="Model to use instead of the spec's model.path: a file, or python:package.module:name. A chain needs a "
        "network, or a model that can be converted to a network.",
    ),
    shared.units(
        "Unit whose states the chain contains: a feature (capital-gain), a neuron (layer3[2]), or a whole layer "
        "(layer3). To choose how the values of the unit are divided into states, append a method after a colon, for "
        "example capital-gain:bins=5 or layer3:kmeans=3. Repeatable."
    ),
    shared.choice(
        "--view",
        CHAIN_VIEWS,
        "States of a recurrent unit: the same states for all steps (folded), separate states for each step (unrolled), "
        "or states of the last step only (last).",
    ),
    shared.choice(
        "--chain",
        COLUMN_KINDS,
        "product: separate states for each group; shared: the same states for all groups.",
        default="product",
    ),
    shared.choice("--estimator", ESTIMATORS, "Estimator of transition probabilities.", default="frequency"),
    shared.protected,
    shared.count(
        "--rounds",
        "Number of rounds, by default 20000. With --epsilon: largest number of rounds, by default 1000000000.",
    ),
    click.option(
        "--epsilon",
        type=float,
        help="Learn until the half width of every interval of a transition probability is at most this number.",
    ),
    shared.choice(
        "--rule",
        STOPPING_RULES,
        "Stopping rule for --epsilon: sound, or paper (the rule of the original paper, which is not sound).",
        default="sound",
    ),
    shared.delta,
    shared.seed,
    shared.workers,
)


@shared.command(
    "Check a PCTL formula on the learned chain.",
    """query audit.toml --units capital-gain:bins=5 'P=? [ F "Y=>50K" ]'""",
)
@click.argument("source", type=PATH)
@click.argument("formula")
@click.option("--start", help="State to start from, instead of the initial state, for example sex=Female.")
@shared.choice("--engine", ["own", "storm"], "Model checker: the program's own, or Storm.", default="own")
@learning
@shared.as_json
@shared.quiet
def query(
    source: Path, formula: str, start: str | None, engine: Any, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Check the PCTL formula FORMULA on the Markov chain of SOURCE, or compute the value of the formula (P=?).

    SOURCE is a spec (.toml, .json), from which a chain is learned, or a chain file (.drn, .tra, .json).

    \b
    Exit codes:
      0  the formula is true, or its value was computed
      1  the formula is false
      2  bad input
      3  the bounds of the probabilities allow both true and false
    """  # noqa: D301
    from fairchain.pctl import check_chain, parse

    parse(formula)  # report a syntax error before a chain is learned
    chain = _chain(source, quiet=quiet or as_json, **options)
    answer = check_chain(chain, formula, engine=engine, start=start)
    if as_json:
        known = {key: chain.metadata.get(key) for key in ("kind", "view", "rounds", "fidelity")}
        unvisited = [chain.states[state] for state in sorted(chain.unvisited)]
        known |= {"left_out": chain.metadata.get("left_out", []), "unvisited": unvisited}
        sizes = {"states": len(chain), "transitions": len(chain.sources)}
        print_json({**answer.to_dict(), "chain": {**sizes, **known}})
    else:
        print(plain(answer if quiet else f"{answer}\n{_remarks(chain, answer)}".rstrip()))
    if not isinstance(answer.value, bool):
        return 0
    return 3 if answer.undecided else 0 if answer.value else 1


@shared.command("Write the learned chain for other tools.", "export audit.toml --units layer3[2] -o chain.drn")
@click.argument("source", type=PATH)
@shared.output("File to write, in the format of its suffix (.prism, .tra, .drn, .dot, .json).")
@shared.choice("--format", PRINTED, "Format for standard output. Use either this option or --output.", to="form")
@click.option("--intervals", is_flag=True, help="Write the bounds of the probabilities; only for DRN and PRISM files.")
@learning
@shared.quiet
def export(source: Path, form: str | None, output: Path | None, intervals: bool, quiet: bool, **options: Any) -> None:
    """Write the Markov chain of SOURCE for PRISM, Storm or Graphviz, or as JSON.

    SOURCE is a spec, from which a chain is learned, or a chain file.
    """
    from fairchain.chain.formats import chain_format, chain_text, check_intervals, format_files, write_chain
    from fairchain.errors import ChainError

    if (output is None) == (form is None):
        raise click.UsageError("give --output FILE, whose suffix is the format, or --format for standard output")
    if output is None:
        assert form is not None
        check_intervals(form, intervals)
        print(chain_text(_chain(source, quiet=True, **options), form, intervals=intervals), end="")
        return
    form = chain_format(output, None)
    check_intervals(form, intervals)
    must_be_writable(output, "--output")
    read = (source,) if source.suffix.lower() in SPECS else format_files(source, chain_format(source, None))
    for path in format_files(output, form):
        if any(path.resolve() == each.resolve() for each in read):
            raise ChainError(f"{path}: the chain is read from this file; name another file with --output")
    for path in write_chain(_chain(source, quiet=quiet, **options), output, form, intervals=intervals):
        print(path)


def _chain(source: Path, *, quiet: bool, **options: Any) -> Chain:
    """Learn the chain of a spec, or read a chain file."""
    if source.suffix.lower() not in SPECS or _holds_a_chain(source):
        from fairchain.chain.formats import read_chain

        context = click.get_current_context()
        for option in context.command.params:
            given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
            if given and option.name in options:
                raise click.UsageError(f"{option.opts[0]}: {source} contains a learned chain; leave this option out")
        return read_chain(source, fix_deadlocks=True)
    from fairchain.chain.learn import learn_chain
    from fairchain.errors import SpecError
    from fairchain.spec import load_spec

    try:
        spec = revised(load_spec(source), options)
    except SpecError as error:
        raise SpecError(f"{source}: {str(error).removeprefix(f'{source}: ')}") from None
    with progress_of("learn", quiet) as progress:
        return learn_chain(options.pop("model"), spec, progress=progress, **options)


def _holds_a_chain(path: Path) -> bool:
    """Return whether a JSON file is a chain of fairchain and not a spec."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    from fairchain.chain.formats.reading import MOST_CHAIN_BYTES

    with path.open("rb") as file:
        return b'"fairchain-chain"' in file.read(MOST_CHAIN_BYTES)


def _remarks(chain: Chain, answer: Any) -> str:
    """Return the size of the chain, its distance from the network, and reasons to doubt the answer."""
    from fairchain.chain.display import left_out, measured, on_one_line

    # The metadata of a file is untrusted and may have any type.
    metadata = chain.metadata
    lines = [f"{len(chain):,} states, {len(chain.sources):,} transitions"]
    if isinstance(metadata.get("rounds"), int):
        lines[0] += f", learned from {metadata['rounds']:,} rounds for each group"
    found, product = metadata.get("fidelity"), metadata.get("kind") != "shared"
    error = measured(found, 4)
    if error and isinstance(found, dict):
        what = f"P({on_one_line(str(found.get('label')))} | {on_one_line(str(found.get('group')))})"
        lines.append(
            f"Probabilities on fresh inputs differ by up to {error} ({what}); in a product chain this is only "
            "sampling error."
            if product
            else f"The states of a shared chain do not carry the group: its probabilities are wrong by up to {error} "
            f"({what}). Do not use it for decisions."
        )
        steps, visits = measured(found.get("steps"), 4), measured(found.get("visits"), 4)
        if steps and visits:
            exact = metadata.get("kind") == "product" and metadata.get("view") == "unrolled"
            lines.append(
                f"The next state depends on more than the present one: P(state after a step) is wrong by up to {steps}"
                f"{' (sampling error only)' if exact else ''}, P(ever in a state) by up to {visits}."
            )
    if small := left_out(chain):
        lines.append(f"{small[0].upper()}{small[1:]}.")
    if metadata.get("sound") is False:
        lines.append("NOT SOUND: the paper's stopping rule gives epsilon no guarantee; the bounds are valid.")
    if answer.depends_on:
        lines.append(
            f"No evidence: the answer depends on states that were never visited: {', '.join(answer.depends_on[:5])}."
        )
    return "\n".join(lines)
