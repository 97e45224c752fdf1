"""The commands `query` and `export`: a chain learned from a spec's network, or read from a file; asked, or written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli.options import PATH, as_json, quiet, seed
from fairchain.cli.verify import must_be_writable

if TYPE_CHECKING:
    from fairchain.chain import Chain

SPECS = (".toml", ".json")


def learning(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for learning a chain; a chain that is read from a file needs none of them."""
    for option in reversed(
        [
            click.option("--model", help="Instead of the spec's model.path."),
            click.option(
                "--states", multiple=True, help="A unit to look at: capital-gain, layer3[2], layer3:kmeans=3."
            ),
            click.option("--kind", type=click.Choice(["product", "shared"]), default="product", show_default=True),
            click.option(
                "--estimator",
                type=click.Choice(["frequency", "laplace", "good-turing"]),
                default="frequency",
                show_default=True,
            ),
            click.option("--protected", multiple=True, help="Instead of the spec's; repeat for combinations."),
            click.option("--rounds", type=click.IntRange(min=1), help="People shown as each group [default: 20000]."),
            click.option("--epsilon", type=float, help="Instead: until every transition is known within epsilon."),
            click.option("--rule", type=click.Choice(["sound", "paper"]), default="sound", show_default=True),
            click.option("--delta", type=float, help="Of all intervals together; instead of the spec's."),
            seed,
            click.option("--workers", type=click.IntRange(min=1), help="Threads; by default one for each core."),
        ]
    ):
        command = option(command)
    return command


@click.command(
    short_help="PCTL on the learned chain.",
    epilog="""Example: fairchain query audit.toml --states capital-gain:bins=5 'P=? [ F "Y=>50K" ]'""",
)
@click.argument("source", type=PATH)
@click.argument("formula")
@click.option("--state", "start", help="Ask from this state instead of the first, for example sex=Female.")
@click.option("--engine", type=click.Choice(["own", "storm"]), default="own", show_default=True)
@learning
@as_json
@quiet
def query(
    source: Path, formula: str, start: str | None, engine: Any, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Ask FORMULA of the chain of SOURCE: a spec (.toml, .json), or a chain file (.drn, .tra, .json).

    Exit code 0, or for a formula that is true or false 0 if true, 1 if false, 3 if its bounds allow both.
    """
    chain = _chain(source, quiet=quiet or as_json, **options)
    from fairchain.checker import check

    answer = check(chain, formula, engine=engine, state=start)
    if as_json:
        print(json.dumps({**answer.to_dict(), "chain": _summary(chain)}, indent=1))
    else:
        print(answer if quiet else f"{answer}\n{_remarks(chain, answer)}".rstrip())
    if isinstance(answer.value, bool):
        sys.exit(3 if answer.undecided else 0 if answer.value else 1)


@click.command(
    short_help="The chain for other tools.",
    epilog="Example: fairchain export audit.toml --states layer3[2] --to drn -o chain.drn",
)
@click.argument("source", type=PATH)
@click.option("--to", "form", type=click.Choice(["prism", "explicit", "drn", "dot", "json"]), required=True)
@click.option("-o", "--output", type=PATH, help="The file to write; standard output if absent (not for explicit).")
@click.option("--intervals", is_flag=True, help="In a DRN file: bounds in place of probabilities.")
@learning
@quiet
def export(source: Path, form: str, output: Path | None, intervals: bool, quiet: bool, **options: Any) -> None:
    """Write the chain of SOURCE, a spec or a chain file: PRISM language or explicit files, Storm DRN, DOT, JSON."""
    from fairchain.chain.formats import chain_text, write_chain

    if output is None and form == "explicit":
        raise click.UsageError("explicit files are three; name them with -o chain.tra")
    if output is not None:
        must_be_writable(output, "-o")
    chain = _chain(source, quiet=quiet or output is None, **options)
    if output is None:
        print(chain_text(chain, form, intervals=intervals), end="")
        return
    for path in write_chain(chain, output, form, intervals=intervals):
        print(path)


def _chain(source: Path, *, quiet: bool, protected: tuple[str, ...], delta: float | None, **options: Any) -> Chain:
    """Learn it from a spec, or read it."""
    if source.suffix.lower() not in SPECS or _holds_a_chain(source):
        from fairchain.chain.formats import read_chain

        return read_chain(source, fix_deadlocks=True)
    from fairchain.chain.learn import learn_chain
    from fairchain.cli.progress import learn_progress
    from fairchain.errors import SpecError
    from fairchain.spec import load_spec, revise

    try:
        spec = revise(load_spec(source), property__protected=list(protected) or None, guarantee__delta=delta)
    except SpecError as error:
        raise SpecError(f"{source}: {str(error).removeprefix(f'{source}: ')}") from None
    with learn_progress(quiet) as progress:
        return learn_chain(options.pop("model"), spec, progress=progress, **options)


def _holds_a_chain(path: Path) -> bool:
    """Whether a JSON file is a chain of ours and not a spec."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"fairchain-chain"' in file.read(4096)


def _summary(chain: Chain) -> dict[str, Any]:
    return {
        "states": len(chain),
        "transitions": len(chain.sources),
        "kind": chain.about.get("kind"),
        "rounds": chain.about.get("rounds"),
        "fidelity": chain.about.get("fidelity"),
        "unvisited": [chain.states[state] for state in sorted(chain.unvisited)],
    }


def _remarks(chain: Chain, answer: Any) -> str:
    """What a reader should know about the chain before believing the answer."""
    lines = [f"{len(chain):,} states, {len(chain.sources):,} transitions"]
    if "rounds" in chain.about:
        lines[0] += f", learned from {chain.about['rounds']:,} rounds as each group"
    fidelity = chain.about.get("fidelity")
    if fidelity:
        lines.append(
            f"A shared chain forgets the group: its probabilities are off by up to {fidelity['estimate']:.4f} "
            f"[{fidelity['low']:.4f}, {fidelity['high']:.4f}] (P({fidelity['label']} | {fidelity['group']})); "
            "do not decide on it."
        )
    if chain.about.get("sound") is False:
        lines.append("NOT SOUND: the paper's rule says when to stop; its accuracy carries no guarantee.")
    if answer.depends_on:
        lines.append(f"No evidence: the answer depends on states never seen: {', '.join(answer.depends_on[:5])}.")
    return "\n".join(lines)
