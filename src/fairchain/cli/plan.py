"""The command `plan`: forecast the cost of a verdict before anything is run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.options import PATH, write_or_print
from fairchain.cli.terminal import Screen, print_json
from fairchain.errors import SpecError

if TYPE_CHECKING:
    from fairchain.planning import QuestionPlan

PLAN_BAR_WIDTH = 40


@shared.command("Forecast the evaluations, seconds or rows of a verdict.", "plan --threshold 0.1 --gap 0.05 --rate 0.3")
@click.argument("spec", type=PATH, required=False)
@shared.model
@shared.service
@shared.data
@shared.protected
@shared.kind
@shared.threshold
@shared.delta
@click.option(
    "--gap",
    type=float,
    help="Assumed largest difference between groups; for the kind ratio, the assumed smallest ratio; for individual, "
    "the assumed share of decisions that change.",
)
@click.option(
    "--rate",
    type=float,
    default=0.5,
    show_default=True,
    help="Assumed rate of the outcome in the group with the highest rate.",
)
@click.option("--rates", help="Assumed rate of each group, instead of --gap and --rate, for example 0.3,0.25,0.2.")
@click.option("--differ", type=float, help="Assumed share of rounds in which two groups get different decisions.")
@shared.count("--groups", "Without SPEC: number of groups.", least=2, default=2)
@click.option(
    "--rows",
    help="Without SPEC: number of rows of each group in a sample, as one number for all groups (500), or one for each "
    "group (500,2000). By default, inputs are drawn.",
)
@shared.count("--questions", "Without SPEC: number of questions that share delta.", default=1)
@click.option("--speed", type=float, help="Evaluations per second, to forecast seconds without a pilot.")
@shared.count("--pilot", "Evaluate the model on this many rounds first, to measure rates and speed.")
@click.option("--curve", is_flag=True, help="Also forecast the evaluations or rows for other assumed gaps.")
@shared.output("Write the forecasts of --curve to this file, as a curve in SVG.")
@shared.as_json
def plan(spec: Path | None, as_json: bool, curve: bool, output: Path | None, **options: Any) -> int:
    """Forecast how many evaluations, seconds or rows a verdict needs. SPEC or the options state the question.

    For drawn inputs, the command simulates rounds and applies the stopping rule to the simulated rounds. For a sample
    of rows, the command simulates samples and their verdicts. The forecast lists its assumptions. The model is
    evaluated only with --pilot.

    \b
    Exit codes:
      0  success
      2  bad input
    """  # noqa: D301
    from fairchain.planning import plan as make_plan

    model = options["model"] = shared.opened_model(options["model"], options)
    for name, kind in (("rates", float), ("rows", int)):
        if (text := options[name]) is None:
            continue
        try:
            options[name] = [kind(each) for each in text.split(",")]
        except ValueError:
            raise SpecError(f'--{name}: found "{text}"; write numbers with commas between them') from None
    if options["rows"] is not None and len(options["rows"]) == 1:
        options["rows"] = options["rows"][0]  # it applies to every group
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    if spec is not None and given.get("groups") == 2:  # the default
        del given["groups"]
    found = make_plan(spec, curve=curve or output is not None, **given)
    if output is not None:
        from fairchain.report.plots.cost_curve import cost_curve

        if len(found.questions) > 1 or not any(point.rows or point.evaluations for point in found.questions[0].curve):
            raise SpecError("--output: a curve needs one question whose run is forecast to end; leave it out")
        write_or_print(f"{cost_curve(found.questions[0])}\n", output)
    if as_json:
        print_json(found.to_dict())
    else:
        from fairchain.planning.result import amount, plan_lines

        screen = Screen()
        for question in found.questions:
            head, *rest = plan_lines(question)
            screen.line((head, "bold"))
            screen.lines((*rest, *_bars(question)))
        if len(found.questions) > 1:
            most = amount(found.evaluations, "evaluations")
            screen.line((f"together: at most {most}, delta {found.delta:g}", "bold"))
        if hasattr(model, "forecast") and found.evaluations.most is not None:
            print(f"{model.name}: {model.forecast(int(found.evaluations.most))}, in 95 of 100 runs at most")
    return 0


def _bars(question: QuestionPlan) -> list[str]:
    """Return a bar for each gap; its length is proportional to the logarithm of the cost."""
    costs = [point.rows or (point.evaluations.mean if point.evaluations else None) for point in question.curve]
    known = [cost for cost in costs if cost]
    if not known:
        return []
    low, high = math.log(min(known)), math.log(max(known))
    unit = "rows of each group" if any(point.rows for point in question.curve) else "evaluations"
    lines = [f"  {'ratio' if question.kind == 'ratio' else 'gap'}, verdict, {unit} (bars: logarithm)"]
    for point, cost in zip(question.curve, costs, strict=True):
        length = 1 + round((PLAN_BAR_WIDTH - 1) * (math.log(cost) - low) / max(high - low, 1e-9)) if cost else 0
        shown = f"{cost:,.0f}" if cost else "no forecast of an end"
        lines.append(f"  {point.gap:<7.4g} {point.verdict:<9} {'#' * length:<{PLAN_BAR_WIDTH}} {shown}")
    return lines
