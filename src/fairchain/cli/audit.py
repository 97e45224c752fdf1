"""The command `audit`: verify, explain, repair and report into a folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.exit_codes import VERDICT_EXIT_CODES
from fairchain.cli.options import PATH
from fairchain.cli.terminal import VERDICT_COLOURS, Screen, print_json, wanted
from fairchain.number_format import bounded
from fairchain.system.interrupts import raising

if TYPE_CHECKING:
    from fairchain.auditing import Audit, Step
    from fairchain.explaining import Explanation

STAGES = {
    "verify": "verifying",
    "all pairs": "estimating every group and pair",
    "explain": "explaining the gap",
    "chain": "learning the chain",
    "repair": "repairing",
    "verify repaired": "verifying all questions of the repaired network",
    "report": "writing the report",
}
MOST_LISTED_UNITS = 3
FINISHED_STAGES_KEPT = "interrupted; finished stages are kept in {}, and the same command continues there"


@shared.command(
    "Verify, explain and repair a model, and write a report.", "audit audit.toml -o audit --labelled rows.csv"
)
@click.argument("spec", type=PATH)
@shared.output("Folder to write. Name the same folder again to continue an interrupted audit.", required=True)
@shared.model
@shared.service
@shared.labelled
@shared.label
@click.option("--no-repair", is_flag=True, help="Do not repair an unfair model.")
@click.option("--restart", is_flag=True, help="Discard the results of an earlier audit in the folder.")
@shared.allow_constant
@shared.seed
@shared.workers
@shared.as_json
@shared.quiet
def audit(spec: Path, output: Path, no_repair: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Verify the model of SPEC, and write a report to a folder.

    If the verdict is UNFAIR or UNDECIDED, the audit explains the gap. If the verdict is UNFAIR, the audit also tries to
    repair the model.

    The folder contains report.html and report.md and, if possible, certificate.json and a Markov chain in several
    formats. A successful repair adds repaired.onnx and, if possible, a certificate for the repaired network. For a
    model that is evaluated in Python, a successful repair adds thresholds.json instead of these files. If an audit is
    interrupted, the same command continues the audit and writes the same files as an uninterrupted audit.

    \b
    Exit codes, about the original model:
      0    fair
      1    unfair
      2    bad input, or a result that cannot be written
      3    undecided, or a constant model
      130  interrupted
    """  # noqa: D301
    options["model"] = shared.opened_model(options["model"], options, quiet=quiet or as_json)
    found = run_audit(spec, output, quiet=quiet or as_json, repair=not no_repair, **options)
    if as_json:
        print_json(audit_values(found))
    else:
        show_audit(found, spec, brief=quiet)
    return VERDICT_EXIT_CODES[found.decision]


def run_audit(spec: Path, output: Path, *, quiet: bool, **options: Any) -> Audit:
    """Audit with the stages shown on a terminal; Ctrl-C ends the current stage and discards its partial result."""
    from fairchain.auditing import audit as run

    try:
        with raising(_Interrupted), _stages(quiet) as progress:
            return run(spec, output, progress=progress, **options)
    except (_Interrupted, KeyboardInterrupt):
        raise click.Abort(FINISHED_STAGES_KEPT.format(output)) from None


class _Interrupted(BaseException):
    """Ctrl-C as a separate exception, because stages turn a KeyboardInterrupt into a partial answer."""


def audit_values(found: Audit) -> dict[str, object]:
    """Return an audit as plain JSON values."""
    findings = found.findings
    verdict, repair = findings.verdict, findings.repair
    after = repair.after if repair is not None and found.repaired else None
    return {
        "verdict": found.decision,
        "constant": verdict.constant,
        "gap": {"estimate": verdict.gap.estimate, "low": verdict.gap.low, "high": verdict.gap.high},
        "threshold": verdict.threshold,
        "delta": verdict.delta,
        "sound": verdict.sound,
        "questions": [each.to_dict() for each in findings.questions],
        "statement": verdict.statement,
        "notes": verdict.notes,
        "repaired": found.repaired,
        "after": after.gap.to_dict() if after is not None else None,
        "left_out": findings.left_out,
        "folder": str(found.folder),
        "report": str(found.report),
        "files": ["report.html", *findings.files],
        "recheck": list(found.recheck),
    }


def show_audit(found: Audit, spec: Path, *, brief: bool) -> None:
    """Print the result of an audit in a few lines, and the next steps."""
    screen, findings, folder = Screen(), found.findings, found.folder
    verdict, repair = findings.verdict, findings.repair
    if findings.questions:
        screen.line((found.decision, VERDICT_COLOURS[found.decision]), f": {len(findings.questions)} questions")
        for each in findings.questions:
            screen.line((f"  {each.word}", VERDICT_COLOURS[each.verdict]), f": {each.headline} ({each.question})")
        screen.line("The question that is furthest from being met:")
    screen.line((verdict.word, VERDICT_COLOURS[verdict.verdict]), f": {verdict.headline}")
    if brief:
        screen.line(f"Report: {found.report}")
        return
    if verdict.kind != "individual" and findings.groups:
        # The two groups with the largest gap; the report lists all groups.
        from fairchain.cli.verdict_display import SCALE, rate_bar
        from fairchain.statistics import Interval

        both = [each for each in findings.groups if each.name in (verdict.gap.more, verdict.gap.less)]
        both.sort(key=lambda each: -each.estimate)
        rates = [[each.name, bounded(each), rate_bar(Interval(each.estimate, each.low, each.high))] for each in both]
        screen.table(["group", f"P(Y={findings.outcome})", SCALE], rates, optional=(2,))
        if others := len(findings.groups) - len(both):
            screen.line((f"and {others} more group{'s' if others > 1 else ''}, in the report", "dim"))
    show_why(screen, findings.explanation, verdict.kind)
    screen.line((verdict.statement, "bold"))
    screen.lines(verdict.notes, "yellow")
    left_out = {part: reason for part, reason in findings.left_out.items() if part != "chain"}
    screen.lines((f"No {part}: {reason}." for part, reason in left_out.items()), "yellow")
    if repair is not None and repair.needed:
        if found.repaired and repair.after is not None:
            from fairchain.cli.repair import show_groups

            screen.line(("REPAIRED", "bold green"), f": {repair.after.headline}")
            if repair.price is not None:
                screen.line(f"The price: {repair.price}.")
                show_groups(screen, repair)
            screen.line((repair.statement, "bold"))
        else:
            screen.line(("NOT REPAIRED", "bold yellow"), f": {repair.statement.removeprefix('Not repaired: ')}")
        screen.lines(repair.notes, "yellow")
    screen.line()
    steps = [["read", str(found.report)]]
    if found.repaired:
        certificates = [str(folder / name) for name in ("certificate.json", "repaired-certificate.json")]
        repaired = next(name for name in ("repaired.onnx", "thresholds.json") if name in findings.files)
        how = ": above its threshold, a score is decided as label_above" if repaired == "thresholds.json" else ""
        steps.append(["use", f"{folder / repaired}{how}"])
        if "repaired-certificate.json" in findings.files and not findings.questions:
            steps.append(["compare", shlex.join(["fairchain", "compare", *certificates])])
    elif found.decision == "UNDECIDED":
        budget = f"with a larger budget in [guarantee] of {spec}, and --restart or another folder"
        rows = "with more rows, in a new table and another folder"
        steps.append(["decide", rows if findings.verdict.stopped == "rows" else budget])
    screen.table([], [*steps, *(["check", command] for command in found.recheck)])


def show_why(screen: Screen, explanation: Explanation | None, kind: str) -> None:
    """Print the units with the largest effects on the gap."""
    from fairchain.report.findings import unit_name

    if explanation is None or not explanation.units:
        return
    what = "the share that changes" if kind == "individual" else "the gap"
    told = "; ".join(f"{unit_name(unit)} {bounded(unit.effect)}" for unit in explanation.units[:MOST_LISTED_UNITS])
    screen.line(
        f"Between {explanation.pair.more} and {explanation.pair.less} {what} is {bounded(explanation.gap)}. "
        f"Ablating one unit reduces it by: {told}"
    )


@contextmanager
def _stages(silent: bool) -> Iterator[Callable[[Step], None] | None]:
    """Show the current and the finished stages on a terminal."""
    if not wanted(silent):
        yield None
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status("") as status:

        def report(step: Step) -> None:
            if step.finished:
                console.print(f"[green]{'done before:' if step.kept else 'done:'}[/] {STAGES[step.stage]}")
            else:
                status.update(escape(STAGES[step.stage] + (f": {step.detail}" if step.detail else "")))

        yield report
