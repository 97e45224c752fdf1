"""The command `explain`: effects of features and neurons on the gap, as tables with bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.options import PATH, naming, revised
from fairchain.cli.terminal import Screen, print_json, progress_of
from fairchain.messages import in_a_line

if TYPE_CHECKING:
    from fairchain.explaining.result import Explanation
    from fairchain.statistics import Interval

BAR, SHOWN_WITNESSES = 25, 3


@shared.command(
    "Rank features and neurons by their effect on the gap.",
    "explain audit.toml --units features --units layer3 --rows rows.csv",
)
@click.argument("spec", type=PATH)
@shared.model
@shared.service
@shared.data
@click.option(
    "--rows",
    type=PATH,
    help="Table of real rows, for a question about drawn inputs. Counterfactual pairs (witnesses) are then real rows, "
    "or drawn inputs near real rows.",
)
@shared.units(
    "Units to rank: a feature (capital-gain), a neuron (layer3[2]), each neuron of a layer (layer3), all features "
    "(features), or all neurons (neurons). The sensitivity of a unit depends on a division of its values into states. "
    "To choose the division, append a method after a colon, for example layer3:kmeans=3. Repeatable."
)
@shared.count("--rounds", "Number of rounds; by default 20000.")
@shared.count("--top", "Number of lines in each printed table.", default=10)
@shared.choice(
    "--method",
    ["resample", "mean"],
    "Replacement for the value of a unit: the value of the unit for another input (resample), or the mean of the unit "
    "(mean). The default is mean for features that are drawn independently, and resample for all other units.",
)
@shared.protected
@shared.outcome
@shared.delta
@shared.show_texts
@shared.seed
@shared.workers
@shared.as_json
@shared.quiet
def explain(spec: Path, top: int, as_json: bool, quiet: bool, **options: Any) -> None:
    """Rank the features and neurons of the model of SPEC by their effect on the gap between two groups.

    The two groups are the pair that differs most in a pilot. By default, all unprotected features and all neurons are
    ranked. The exit code is 2 for bad input, and 0 for an explanation, even if there is no gap.
    """
    from fairchain.explaining import explain as run_explain
    from fairchain.explaining.explainer import EXPLAINED_ROUNDS
    from fairchain.spec import load_spec

    question = load_spec(spec)
    model = shared.opened_model(options.pop("model"), options, quiet=quiet or as_json)
    with naming(spec):
        question = revised(question, options)
        with progress_of("explain", quiet or as_json) as progress:
            defaults = {"units": None, "rounds": EXPLAINED_ROUNDS, "method": "default"}
            options |= {name: options[name] or default for name, default in defaults.items()}
            found = run_explain(model, question, progress=progress, **options)
    if as_json:
        print_json(found.to_dict())
    elif quiet:
        print(in_a_line(found))
    else:
        show_explanation(found, top)


def show_explanation(found: Explanation, top: int) -> None:
    """Print an explanation: effects of units and words, layers, witnesses, the guarantee."""
    from fairchain.cli.verdict_display import show_witness
    from fairchain.report.findings import unit_name

    screen = Screen()
    screen.line((found.headline, "bold"))
    if found.fair:
        screen.line(
            ("Nothing to explain", "bold green"),
            f": every gap is at most {found.largest.high:.4f}, the threshold is {found.threshold:g}. "
            "Effects on the gap:",
        )
    for title, kinds in (("feature", ("feature",)), ("neuron", ("neuron", "cell"))):
        units = [unit for unit in found.units if unit.kind in kinds]
        if units:
            screen.line()
            low, high, scale = _scale(units[:top])
            screen.table(
                [title, "gap smaller by", scale, "left", "paper's sensitivity", "relative"],
                [
                    [
                        unit_name(unit),
                        f"{unit.effect:.4f}",
                        effect_bar(unit.effect, low, high),
                        f"{unit.remaining:.4f}",
                        f"{unit.sensitivity:.4f}",
                        f"{unit.share:.2f}",
                    ]
                    for unit in units[:top]
                ],
                optional=(5, 3, 2),
            )
            if len(units) > top:
                screen.line(f"... and {len(units) - top} more: --top {len(units)}, or --json")
    if len(found.layers) > 1:
        screen.line()
        screen.table(
            ["layer", "units", "sum of effects", "sum of sensitivities"],
            [
                [layer.name, f"{layer.width}", f"{layer.effect.estimate:.4f}", f"{layer.sensitivity.estimate:.4f}"]
                for layer in found.layers
            ],
        )
    if words := found.words[:top]:
        low, high, scale = _scale(words)
        screen.line()
        screen.table(
            ["word", "texts", f"less {found.outcome} without it by", scale],
            [
                [word.word, f"{word.texts:,}", f"{word.effect:.4f}", effect_bar(word.effect, low, high)]
                for word in words
            ],
        )
    alike = found.agreement
    tau = "not defined, all tie" if alike.kendall is None else f"{alike.kendall:.2f}"
    if alike.top:
        screen.line()
        screen.line(
            f"Kendall's tau between the effects and the paper's sensitivities: {tau}; {alike.common} of the first "
            f"{alike.top} units are the same."
        )
    for witness in found.witnesses[:SHOWN_WITNESSES]:
        title = "One individual, two decisions"
        if witness.row is not None:
            off = f" ({witness.distance:.0%} off)" if witness.distance else ""
            title = f"{'Near row' if off else 'Row'} {witness.row}{off}"
        show_witness(screen, witness, title)
    screen.line()
    screen.line((found.statement, "bold"))
    screen.line((found.scope, "dim"))
    screen.lines(found.notes, "yellow")
    cost = f"{found.rounds:,} rounds, {found.evaluations:,} evaluations of the model or a part of it"
    screen.line((f"{cost}, {found.seconds:.3f} s; delta {found.delta:g}", "dim"))


def _scale(shown: Sequence[Any]) -> tuple[float, float, str]:
    """Return the ends of a scale that contains 0 and every interval of an effect, and both as the title of bars."""
    low, high = min(0.0, *(each.effect.low for each in shown)), max(0.0, *(each.effect.high for each in shown))
    left, right = f"{low:.2f}", f"{high:.2f}"
    return low, high, left + " " * max(1, BAR - len(left) - len(right)) + right


def effect_bar(interval: Interval, low: float, high: float) -> str:
    """Return an interval as a bar on a scale from low to high, with a mark at zero.

    >>> from fairchain.statistics import Interval
    >>> effect_bar(Interval(0.5, 0.25, 0.75), 0.0, 1.0)
    '│·····━━━━━━●━━━━━━······'
    """

    def place(value: float) -> int:
        return min(BAR - 1, max(0, round((value - low) / ((high - low) or 1.0) * (BAR - 1))))

    cells = ["·"] * BAR
    for number in range(place(interval.low), place(interval.high) + 1):
        cells[number] = "━"
    cells[place(0.0)] = "│"
    cells[place(interval.estimate)] = "●"
    return "".join(cells)
