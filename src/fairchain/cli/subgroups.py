"""The command `subgroups`: the intersections of protected features whose rates differ most from those of all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairchain.cli import options as shared
from fairchain.cli.exit_codes import VERDICT_EXIT_CODES
from fairchain.cli.options import PATH, naming
from fairchain.cli.terminal import VERDICT_COLOURS, Screen, StyledText, print_json, progress_of
from fairchain.number_format import bounded


@shared.command(
    "Find the subgroups whose rates differ most.", "subgroups audit.toml --protected sex --protected race --depth 2"
)
@click.argument("spec", type=PATH)
@shared.model
@shared.service
@shared.data
@click.option(
    "--protected",
    multiple=True,
    help="Feature that defines groups; repeatable.  [default: the protected features of the spec]",
)
@shared.count(
    "--depth",
    "Largest number of features in an intersection; by default 2, or 1 if there is a single protected feature.",
)
@shared.option(
    "--min-size",
    float,
    "Smallest size of a searched subgroup: a number of inputs, or a share. A number below 1 is a share.",
    default=0.01,
)
@shared.outcome
@click.option(
    "--threshold", type=float, help="Largest fair difference between the rates of a subgroup and of all other inputs."
)
@shared.delta
@shared.count("--top", "Number of subgroups to list.", default=10)
@shared.count(
    "--inputs", "Number of inputs to draw. If the spec is about a table, all rows are used.", least=2, default=100_000
)
@shared.seed
@shared.as_json
@shared.quiet
def subgroups(
    spec: Path, model: str | None, protected: tuple[str, ...], as_json: bool, quiet: bool, **options: Any
) -> int:
    """Find the subgroups for which the rate of the outcome differs most from the rate for all other inputs.

    A subgroup of SPEC is a group of one protected feature, or an intersection of groups of up to --depth protected
    features. All printed intervals hold simultaneously with probability at least 1 - delta.

    \b
    Exit codes:
      0  every searched subgroup is within the threshold
      1  a subgroup is beyond the threshold
      2  bad input
      3  undecided
    """  # noqa: D301
    from fairchain.subgroup_search import find_subgroups

    opened = shared.opened_model(model, options, quiet=quiet or as_json)
    with naming(spec), progress_of("recheck", quiet or as_json) as progress:
        found = find_subgroups(opened, spec, protected=protected or None, progress=progress, **options)
    if as_json:
        print_json(found.to_dict())
    else:
        screen = Screen()
        beyond = sum(each.certified for each in found.subgroups)
        told = f"{found.candidates:,} subgroups searched; {beyond} of the listed subgroups are beyond the threshold"
        screen.line((found.verdict, VERDICT_COLOURS[found.verdict]), f": {told} {found.threshold:g}")
        if not quiet:
            rows: list[list[StyledText]] = []
            for each in found.subgroups:
                named = each.name, "bold red" if each.certified else ""
                rates = f"{each.rate:.4f}", f"{each.other_rate:.4f}"
                rows.append([named, f"{each.share:.1%}", *rates, bounded(each)])
            screen.table(["subgroup", "share", f"P({found.outcome})", "others", "gap"], rows)
            screen.line()
            screen.line((found.statement, "bold"))
            cost = f"{found.inputs:,} inputs, {found.seconds:.3f} s; delta {found.delta:g}"
            screen.line((f"{found.population}; {cost}", "dim"))
    return VERDICT_EXIT_CODES[found.verdict]
