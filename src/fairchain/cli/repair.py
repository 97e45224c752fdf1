"""The command `repair`: write a fair model, its certificate and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.exit_codes import VERDICT_EXIT_CODES
from fairchain.cli.options import PATH, naming, revised
from fairchain.cli.output import must_be_writable
from fairchain.cli.terminal import VERDICT_COLOURS, Screen, print_json, progress_of
from fairchain.errors import FairchainError
from fairchain.messages import in_a_line

if TYPE_CHECKING:
    from fairchain.repairing import Repair
    from fairchain.repairing.result import RepairOf
    from fairchain.spec import Spec

# Lines of each table on a terminal; the file next to the network contains all.
MOST_PRINTED_CHANGES = 12
FRONT_ROWS = 8


@shared.command(
    "Repair an unfair model, with a new certificate.",
    "repair audit.toml -o repaired.onnx --labelled rows.csv --label income",
)
@click.argument("spec", type=PATH)
@shared.output(
    "Network (.onnx) to write, or decision thresholds (.json) of a model that is evaluated in Python.", required=True
)
@shared.model
@shared.labelled
@click.option(
    "--held-out",
    type=PATH,
    help="Labelled rows on which the accuracy of the repaired model is measured, instead of half of --labelled. If "
    "the population is a sample, these rows also replace the half of the sample that the final verification uses by "
    "default.",
)
@shared.label
@shared.choice(
    "--optimizer",
    ["evolution", "pso"],
    "Search algorithm: covariance matrix adaptation (evolution), or the particle swarm of the original paper (pso).",
    default="evolution",
)
@shared.choice(
    "--change",
    ["auto", "scales", "biases", "last-layer", "low-rank", "threshold", "group-thresholds"],
    "Parameters that may change: weights (scales, biases, last-layer, low-rank) or decision thresholds (threshold, "
    "group-thresholds). With auto, the model determines the choice. Separate thresholds for groups may be unlawful.",
    default="auto",
)
@shared.count(
    "--max-units",
    "Largest number of features and neurons that may change, besides the protected features.",
    least=0,
    default=10,
)
@click.option(
    "--keep-protected", is_flag=True, default=None, help="Do not change the weights of the protected features."
)
@click.option(
    "--max-accuracy-loss",
    type=float,
    help="Largest allowed loss of accuracy. The search then looks for the smallest gap within this limit.",
)
@shared.count("--iterations", "Largest number of generations of the search.", least=0, default=100)
@shared.protected
@shared.outcome
@shared.threshold
@shared.delta
@shared.allow_constant
@shared.seed
@shared.workers
@shared.as_json
@shared.quiet
def repair(spec: Path, output: Path, model: str | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Change weights or decision thresholds of the model of SPEC to make the model fair, and verify the new model.

    If the repair succeeds, the command writes the network (OUTPUT), a list of the changes (.txt) and, if possible, a
    certificate (.json). For a folder of a transformer, OUTPUT without a suffix names a new folder. For a model that is
    evaluated in Python, the command writes the decision thresholds (OUTPUT, .json) and the list of the changes. If the
    repair fails, nothing is written.

    \b
    Exit codes:
      0  repaired, or fair already
      1  not repaired
      2  bad input, or a result that cannot be written
      3  a constant model, which has nothing to repair
    """  # noqa: D301
    from fairchain.repairing import repair as run_repair
    from fairchain.repairing import write_repair
    from fairchain.repairing.files import is_weights_folder
    from fairchain.spec import load_spec
    from fairchain.spec.documents import files_of

    question = load_spec(spec)
    parts = (question.model, question.population, *question.described)
    named = [Path(name) for part in parts for name in files_of(part).values()]
    _must_be_safe(output, [spec, Path(model or spec), *named], folder=is_weights_folder(model or question.model.path))
    with naming(spec):
        question = revised(question, options)
        with progress_of("repair", quiet or as_json) as progress:
            result = run_repair(model, question, progress=progress, **options)
    files, unwritten = [], None
    try:
        if result.accepted:
            files = write_repair(result, output, source=model)
    except FairchainError as error:
        # The result of a long search is printed although it cannot be written.
        unwritten = error
    if as_json:
        print_json({**result.to_dict(), "files": [str(file) for file in files]})
    elif quiet:
        print(in_a_line(result))
    else:
        show_repair(result, question, files)
    if unwritten is not None:
        raise unwritten
    if not result.needed:
        return VERDICT_EXIT_CODES[result.before.conclusion]
    return 0 if result.accepted else 1


def _must_be_safe(output: Path, sources: Sequence[Path], *, folder: bool) -> None:
    """Refuse an output that cannot be written, or that would overwrite an input of the repair."""
    from fairchain.repairing.files import EXISTS

    if folder and not output.suffix:
        if output.exists():
            raise FairchainError(EXISTS.format(path=output))
        return
    if output.suffix.lower() not in (".onnx", ".json"):
        raise FairchainError(
            f"{output}: --output must name an .onnx file, .json for a model in Python, or a folder for a transformer's"
        )
    must_be_writable(output, "--output")
    for made in (output.with_suffix(suffix) for suffix in (".onnx", ".json", ".txt")):
        for source in sources:
            if made.exists() and source.exists() and made.samefile(source):
                raise FairchainError(
                    f"{made}: is an input of the repair and would be overwritten; give --output another name"
                )


def show_repair(result: Repair, question: Spec, files: list[Path]) -> None:
    """Print a repair: before and after, groups, changes, Pareto front, attempts, guarantee."""
    screen = Screen()
    name, style = "NOT NEEDED", VERDICT_COLOURS[result.before.conclusion]
    if result.needed:
        name, style = ("REPAIRED", "bold green") if result.accepted else ("NOT REPAIRED", "bold red")
    told = (result.after if result.accepted and result.after is not None else result.before).headline
    if result.needed and not result.accepted:
        told = result.objection if result.after is not None or not result.attempts else result.attempts[-1].why
    screen.line((name, style), f": {told}")
    if result.needed:
        last = "after" if result.accepted else "best tried"
        after = result.after.record.sentence if result.after is not None else None
        known = {"before": result.before.record.sentence, last: after, "price": result.price}
        screen.table([], [[key, f"{found}"] for key, found in known.items() if found is not None])
        show_groups(screen, result)
        if result.changes:
            # Thresholds are shown in the table of groups.
            moved = sorted(
                (a for a in result.adjustments if a.before != a.after), key=lambda a: -abs(a.after - a.before)
            )
            if moved:
                screen.line()
                screen.table(
                    ["what changed", "from", "to"],
                    [[a.name, f"{a.before:.4g}", f"{a.after:.4g}"] for a in moved[:MOST_PRINTED_CHANGES]],
                )
                if len(moved) > MOST_PRINTED_CHANGES:
                    screen.line((f"and {len(moved) - MOST_PRINTED_CHANGES} more", "dim"))
            numbers = sum(change.changed for change in result.changes)
            tensors = ", ".join(change.tensor for change in result.changes)
            screen.line((f"{numbers:,} numbers in {len(result.changes)} tensors: {tensors}", "dim"))
        _show_front(screen, result)
        if len(result.attempts) > 1:
            screen.line()
            screen.table(
                ["attempt", "delta", "verdict", "why"],
                [[str(a.number), f"{a.delta:g}", a.decision, a.why] for a in result.attempts],
            )
        screen.line()
    screen.line((result.statement, "bold" if result.needed else ""))
    screen.lines(result.notes, "yellow")
    if result.needed:
        verified = "candidates were" if len(result.attempts) > 1 else "candidate was"
        stopped = f" The search was interrupted; its best {verified} verified." * (result.stopped == "interrupted")
        cost = (
            f"{result.candidates:,} candidates in {result.iterations} generations, {result.evaluations:,} evaluations"
        )
        screen.line((f"{result.optimizer}: {cost}, {result.seconds:.1f} s; seed {result.seed}.{stopped}", "dim"))
    if files:
        screen.line(f"Written: {', '.join(str(file) for file in files)}")
    else:
        screen.line(
            "Nothing was written." + (_advice(result, question) if result.needed and not result.accepted else "")
        )


def show_groups(screen: Screen, result: RepairOf[Any]) -> None:
    """Print the change of each group's rate, with thresholds if these changed."""
    if not result.groups or result.price is None:
        return
    moved = any(each.threshold is not None for each in result.groups)
    heads = ["group", f"P({result.groups[0].outcome}) before", "after", "gained it", "lost it", "of"]
    heads += ["threshold before", "after"] if moved else []
    rows = []
    for each in result.groups[:MOST_PRINTED_CHANGES]:
        counts = (f"{number:,}" for number in (each.gained, each.lost, each.inputs))
        thresholds = (each.threshold_before, each.threshold) if moved else ()
        thresholds_shown = ("" if threshold is None else f"{threshold:.4g}" for threshold in thresholds)
        rows.append([each.group, f"{each.before:.4f}", f"{each.after:.4f}", *counts, *thresholds_shown])
    screen.line()
    screen.table(heads, rows)
    if all(each.after < each.before for each in result.groups):
        screen.line((f"Every group gets {result.groups[0].outcome} less often than before.", "yellow"))
    more = len(result.groups) - len(rows)
    screen.line((f"on {result.price.on}{f'; and {more} more groups' if more else ''}", "dim"))


def _show_front(screen: Screen, result: Repair) -> None:
    """Print gap and accuracy of the Pareto-optimal candidates, as measured in the search."""
    from fairchain.repairing.search import thinned_front

    if len(result.front) < 2:
        return
    chosen = [point for point in result.front if point.chosen]
    shown = sorted({*thinned_front(result.front, FRONT_ROWS), *chosen}, key=lambda point: point.gap)
    points = [(point, "<- taken" if point.chosen else "") for point in shown]
    if result.original is not None:
        points.append((result.original, "original"))
    measure = result.price.measure if result.price is not None else "accuracy or agreement"
    screen.line()
    screen.table(
        ["gap", measure, ""], [[f"{p.gap:.4f}", f"{p.accuracy:.4f}", (remark, "bold")] for p, remark in points]
    )
    screen.line(("as measured in the search; --max-accuracy-loss chooses another point", "dim"))


def _advice(result: Repair, question: Spec) -> str:
    """Return advice on the next step."""
    from fairchain.spec.properties import limit_of

    if result.change == "threshold":
        return (
            " One threshold for all is not enough: --change group-thresholds has one for each group, where the law "
            "allows decisions that use the group."
        )
    if all(point.gap >= limit_of(question) for point in result.front):
        return (
            " The search did not reach the threshold: try --change low-rank, more --max-units, or a larger threshold."
        )
    if any(attempt.decision == "UNDECIDED" for attempt in result.attempts):
        return " The final verification used up its budget: allow more in [guarantee.budget], or a larger threshold."
    return " Try a larger --max-accuracy-loss, more rows in --labelled, or another --seed."
