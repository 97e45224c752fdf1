"""The command `audit`: Algorithm 1 whole, into a folder, with a report to read."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.options import EXIT_CODES, PATH
from fairchain.cli.progress import wanted
from fairchain.system.interrupts import raising

if TYPE_CHECKING:
    from fairchain.auditing import Audit, Step
    from fairchain.cli.terminal import Screen
    from fairchain.explaining import Explanation

STAGES = {
    "verify": "verifying",
    "survey": "estimating every group and pair",
    "explain": "looking for what carries the gap",
    "chain": "learning the chain",
    "repair": "repairing",
    "report": "writing the report",
}
MOST_UNITS = 3
KEPT = "interrupted; what is finished is kept in {}, and the same command goes on from there"


@click.command(
    short_help="Verify, explain, repair and report, in one go.",
    epilog="Example: fairchain audit audit.toml -o audit --labelled rows.csv",
)
@click.argument("spec", type=PATH)
@shared.output("Folder to write; a stopped audit continues there.", required=True)
@shared.model
@shared.labelled
@shared.label
@click.option("--no-repair", is_flag=True, help="Do not repair an unfair network.")
@click.option("--restart", is_flag=True, help="Discard the stages of an earlier audit in the folder.")
@shared.allow_constant
@shared.seed
@shared.workers
@shared.as_json
@shared.quiet
def audit(
    spec: Path,
    output: Path,
    no_repair: bool,
    labelled: Path | None,
    restart: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Verify the network of SPEC and, if it is not fair, explain and repair it; write a report to a folder.

    The folder gets report.html, report.md, certificate.json, the chain in several formats and, if one was accepted,
    repaired.onnx with a certificate of its own. Stopped with Ctrl-C, or by anything else, it goes on with the same
    command, and ends with the same bytes. Exit code as for verify, about the network as it is: 0 fair, 1 unfair,
    3 undecided or a constant model, 2 bad input or a result that cannot be written, 130 interrupted.
    """
    options |= {"repair": not no_repair, "data": labelled, "fresh": restart}
    found = run_audit(spec, output, quiet=quiet or as_json, **options)
    if as_json:
        print(json.dumps(audit_values(found), indent=1))
    else:
        show_audit(found, spec, brief=quiet)
    return EXIT_CODES[found.decision]


def run_audit(spec: Path, output: Path, *, quiet: bool, **options: Any) -> Audit:
    """An audit that shows its stages on a terminal, and ends at once when somebody stops it."""
    from fairchain.auditing import audit as run

    with _at_once(output), _stages(quiet) as progress:
        return run(spec, output, progress=progress, **options)


class _Interrupted(BaseException):
    """Ctrl-C, told apart from the exception that stages turn into an answer with what they know."""


@contextmanager
def _at_once(folder: Path) -> Iterator[None]:
    """Let Ctrl-C end the stage at work: what it knows by then would not be the same another time."""
    try:
        with raising(_Interrupted):
            yield
    except (_Interrupted, KeyboardInterrupt):
        raise click.Abort(KEPT.format(folder)) from None


def audit_values(found: Audit) -> dict[str, object]:
    """An audit as plain JSON values."""
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
    """The story in a few lines, and what to do next."""
    from fairchain.cli.terminal import Screen
    from fairchain.cli.verdict_display import COLOURS

    screen, findings = Screen(), found.findings
    screen.line((findings.verdict.word, COLOURS[found.decision]), f": {findings.verdict.headline}")
    if brief:
        screen.line(f"Report: {found.report}")
        return
    _show_groups(screen, found)
    show_why(screen, findings.explanation, findings.verdict.kind)
    screen.line((findings.verdict.statement, "bold"))
    for note in findings.verdict.notes:
        screen.line((note, "yellow"))
    _show_repair(screen, found)
    screen.line()
    _show_next(screen, found, spec)


def _show_groups(screen: Screen, found: Audit) -> None:
    from fairchain.cli.verdict_display import SCALE, bar
    from fairchain.number_format import with_interval
    from fairchain.statistics import Interval

    findings = found.findings
    if findings.verdict.kind == "individual" or not findings.groups:
        return
    more, less, outcome = findings.widest
    # Two groups say it; the page has all of them.
    shown = [group for group in findings.groups if group.name in (more, less)]
    shares = {group.name: Interval(group.estimate, group.low, group.high) for group in shown}
    rows = [
        [each, with_interval(share.estimate, share.low, share.high), bar(share)]
        for each, share in sorted(shares.items(), key=lambda item: -item[1].estimate)
    ]
    screen.table(["group", f"P(Y={outcome})", SCALE], rows, optional=(2,))
    others = len(findings.groups) - len(shown)
    if others:
        screen.line((f"and {others} more groups, in the report", "dim"))


def show_why(screen: Screen, explanation: Explanation | None, kind: str) -> None:
    """Show the units with the largest effects on the gap."""
    from fairchain.number_format import bounded
    from fairchain.report.findings import unit_name

    if explanation is not None and explanation.units:
        pair, first = explanation.pair, explanation.units[:MOST_UNITS]
        what = "the share that changes" if kind == "individual" else "the gap"
        told = "; ".join(f"{unit_name(unit)} {bounded(unit.effect)}" for unit in first)
        screen.line(
            f"Between {pair.more} and {pair.less} {what} is {bounded(explanation.gap)}. Ablating one unit reduces it "
            f"by: {told}"
        )


def _show_repair(screen: Screen, found: Audit) -> None:
    repair = found.findings.repair
    for part, reason in found.findings.left_out.items():
        if part != "chain":
            screen.line((f"No {part}: {reason}.", "yellow"))
    if repair is None or not repair.needed:
        return
    told = ("REPAIRED", "bold green") if found.repaired else ("NOT REPAIRED", "bold yellow")
    after = repair.after
    screen.line(told, f": {after.headline}" if after is not None else "")
    if found.repaired:
        screen.line((repair.statement, "bold"))


def _show_next(screen: Screen, found: Audit, spec: Path) -> None:
    """What to do with all this."""
    folder = found.folder
    rows = [["read", str(found.report)]]
    if found.repaired:
        rows.append(["use", str(folder / "repaired.onnx")])
        rows.append(["compare", _command("compare", folder / "certificate.json", folder / "repaired-certificate.json")])
    elif found.decision == "UNDECIDED":
        rows.append(["decide", f"with a larger budget in [guarantee] of {spec}, and --restart or another folder"])
    rows += [["check", command] for command in found.recheck]
    screen.table([], rows)


def _command(name: str, *paths: Path) -> str:
    return f"fairchain {name} {' '.join(shlex.quote(str(path)) for path in paths)}"


@contextmanager
def _stages(silent: bool) -> Iterator[Callable[[Step], None] | None]:
    """The stage at work, and those that are finished, on a terminal."""
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
