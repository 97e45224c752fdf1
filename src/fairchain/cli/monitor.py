"""The command `monitor`: read decisions, report a verdict as soon as the data suffice, keep the counts in a file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairchain.cli import options as shared
from fairchain.cli.exit_codes import VERDICT_EXIT_CODES, Terminated
from fairchain.cli.options import PATH
from fairchain.cli.output import must_be_writable
from fairchain.cli.terminal import VERDICT_COLOURS, Screen
from fairchain.errors import OutputError, SpecError
from fairchain.messages import in_a_line
from fairchain.system.interrupts import raising

if TYPE_CHECKING:
    from fairchain.monitoring.several import FamilyReport, FamilyWatch, StreamQuestion
    from fairchain.monitoring.state import StreamSpec
    from fairchain.monitoring.stream import Report, Watch

# Seconds between two writes of the state while no report is due.
SECONDS_BETWEEN_WRITES = 5.0


@click.command(
    short_help="Watch a stream of decisions.",
    epilog="Example: tail -n +1 -f decisions.csv | fairchain monitor --protected sex --prediction decision --outcome "
    "yes --threshold 0.1",
)
@click.argument("file", type=PATH, required=False)
@click.option(
    "--spec",
    type=PATH,
    help="Spec whose [[property]] tables are monitored together. With a spec, leave out the options that state one "
    "property.",
)
@click.option("--protected", multiple=True, help="Column with the groups. Repeat the option to compare combinations.")
@click.option("--prediction", help="Column with the decisions.")
@click.option("--outcome", help="Decision whose rate is compared.")
@click.option("--threshold", type=float, help="Largest difference, or smallest ratio, that counts as fair.")
@shared.choice("--kind", ["difference", "ratio"], "Compare rates by their difference (default) or by their ratio.")
@click.option(
    "--delta",
    type=float,
    help="Largest probability that any report is wrong; by default 0.05, or the delta of the spec.",
)
@click.option(
    "--group", "groups", multiple=True, help="Group to compare; repeatable. By default, all groups are compared."
)
@click.option("--state", type=PATH, help="File that stores the counts. A later run continues from these counts.")
@shared.count("--every", "Number of rows between two reports.")
@click.option(
    "--keep-going", is_flag=True, help="Continue after the first verdict, and report every change of the verdict."
)
@click.option("--alarm-file", type=PATH, help="File to which the report is written when a property becomes UNFAIR.")
@click.option(
    "--webhook",
    help="Address to which a JSON report is sent (by POST) when a property becomes UNFAIR. The report contains no "
    "rows.",
)
@click.option("--skip-bad", is_flag=True, help="Skip and count lines that cannot be read.")
@shared.allow_constant
@shared.choice(
    "--format",
    ["csv", "jsonl"],
    "Format of the input; by default recognised by the suffix of FILE or the first character.",
    to="form",
)
@click.option("--delimiter", default=",", show_default=True, help="Delimiter of CSV cells, with \\t for a tab.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each report and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict.")
def monitor(
    file: Path | None,
    spec: Path | None,
    groups: tuple[str, ...],
    state: Path | None,
    every: int | None,
    keep_going: bool,
    alarm_file: Path | None,
    webhook: str | None,
    skip_bad: bool,
    allow_constant: bool | None,
    form: Any,
    delimiter: str,
    as_json: bool,
    quiet: bool,
    **question: Any,
) -> int:
    """Read decisions from FILE or standard input, and report a verdict as soon as there are enough decisions.

    The input is CSV with a header, or JSON Lines. You may stop the command after any row, because the interval of the
    gap is valid after every row. If --spec states several properties, the probability that any report about any
    property is wrong is at most delta.

    \b
    Exit codes:
      0  fair
      1  unfair
      2  bad input, or a result that cannot be written
      3  undecided at the end of the input, or constant (all rows, or no rows, have the outcome)
    """  # noqa: D301
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import FamilyState, State, StreamSpec, read_state, sole_use
    from fairchain.monitoring.stream import ENDING_VERDICTS, StreamOptions, Watch

    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise SpecError(f'--delimiter: found "{delimiter}"; write one character, for example ";"')
    watched = _stream_spec(groups, question) if spec is None else _questions(spec, groups, question)
    if webhook is not None:
        from fairchain.monitoring.alarms import check_webhook

        check_webhook(webhook)
    if alarm_file is not None:
        must_be_writable(alarm_file, "--alarm-file")
    if state is not None and state.is_symlink():
        # One state file has one lock, also if it is opened by another path.
        state = Path(os.path.realpath(state))
    if state is not None:
        must_be_writable(state, "--state")
    options = StreamOptions(
        resumable=state is not None,
        form=form,
        delimiter=delimiter,
        skip_bad=skip_bad,
        allow_constant=bool(allow_constant),
    )
    # The state is read after it is locked, and written before the lock is released.
    with sole_use(state) if state is not None else nullcontext(), LineSource(file) as source:
        watch: Watch | FamilyWatch
        if isinstance(watched, StreamSpec):
            before = read_state(state, State, [watched]) if state is not None else None
            watch = Watch(source, watched, before, options)
        else:
            from fairchain.monitoring.several import FamilyWatch, definitions_of

            specs = [each.spec for each in watched]
            kept = read_state(state, FamilyState, specs, definitions_of(watched)) if state is not None else None
            watch = FamilyWatch(source, watched, kept, options)
        # A run that continues one with an alarm repeats the alarm: twice is better than never.
        unfair: frozenset[int] = frozenset()
        with _kept(watch, state) as save:
            try:
                for report in watch.reports(every=every, keep_going=keep_going, after_block=save):
                    decided = report.event == "change" and report.verdict in ENDING_VERDICTS
                    last = report.event in ("end", "before") or (decided and not keep_going)
                    _print(report, last=last, as_json=as_json, quiet=quiet)
                    if report.unfair - unfair:
                        _raise_alarm(report, alarm_file, webhook)
                    unfair = report.unfair
            except (KeyboardInterrupt, Terminated):
                print(f"S{_so_far(watch)[1:]}.", file=sys.stderr)
                raise
        if source.unfinished:
            print("The last line is not complete yet; the next run reads it.", file=sys.stderr)
    return VERDICT_EXIT_CODES[watch.verdict]


def _stream_spec(groups: tuple[str, ...], question: dict[str, Any]) -> StreamSpec:
    """Return the single property that the options state."""
    from fairchain.monitoring.state import StreamSpec

    for name in ("protected", "prediction", "outcome", "threshold"):
        if question[name] in (None, ()):
            raise click.UsageError(f"Missing option '--{name}'.")
    protected: tuple[str, ...] = question["protected"]
    given: dict[str, Any] = {"kind": "difference", "delta": 0.05} | {
        key: each for key, each in question.items() if each is not None
    }
    spec = StreamSpec(groups=tuple(_full_name(group, protected) for group in groups), **given)
    for name in spec.columns:
        if spec.columns.count(name) > 1:
            raise SpecError(f'--protected, --prediction: "{name}" is named twice; use each column once')
    if not all((*spec.columns, spec.outcome)):
        raise SpecError("--protected, --prediction, --outcome: found an empty text; write a name")
    return spec


def _questions(path: Path, groups: tuple[str, ...], options: dict[str, Any]) -> tuple[StreamQuestion, ...]:
    """Return the properties of a spec file, with delta from the command line if given."""
    from fairchain.monitoring.several import stream_questions
    from fairchain.spec import load_specs, revise

    delta = options.pop("delta")
    stated = options | {"group": groups}
    for name in ("protected", "prediction", "outcome", "threshold", "kind", "group"):
        if stated[name] not in (None, ()):
            raise SpecError(f"--{name}: the spec states it; change it there, or leave --spec out")
    specs = [each if delta is None else revise(each, guarantee__delta=delta) for each in load_specs(path)]
    with shared.naming(path):
        return stream_questions(specs)


def _raise_alarm(report: Report | FamilyReport, path: Path | None, webhook: str | None) -> None:
    """Write an alarm to a file and send it to a webhook, if given. A failure here never hides the verdict."""
    if path is None and webhook is None:
        return
    from fairchain.monitoring.alarms import send_alarm
    from fairchain.system.atomic_write import place

    content = {"alarm": "UNFAIR", **report.to_dict()}
    if webhook is not None and (problem := send_alarm(webhook, content)):
        print(f"fairchain: {problem}; the alarm was not delivered there.", file=sys.stderr)
    if path is not None:
        place({path: (json.dumps(content, indent=1) + "\n").encode()})


@contextmanager
def _kept(watch: Watch | FamilyWatch, path: Path | None) -> Iterator[Any]:
    """Write the state every few seconds and at the end, also after Ctrl-C or SIGTERM."""
    from fairchain.monitoring.state import write_state

    if path is None:
        yield lambda: None
        return
    last = time.monotonic()

    def write() -> None:
        try:
            write_state(watch.state, path)
        except OutputError as error:
            raise OutputError(f"{error}; {_so_far(watch)}") from None

    def save() -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_WRITES:
            write()
            last = time.monotonic()

    with raising(KeyboardInterrupt) as by_ctrl_c, raising(Terminated, signal.SIGTERM) as by_sigterm:
        try:
            yield save
        finally:
            # No signal may interrupt this write: the rows of a stream cannot be read again.
            try:
                by_ctrl_c.close()
                by_sigterm.close()
            finally:
                write()


def _so_far(watch: Watch | FamilyWatch) -> str:
    return f"stopped after {watch.rows:,} rows: {watch.verdict}"


def _full_name(group: str, protected: tuple[str, ...]) -> str:
    """Return the full name of a group; with one protected column its value is enough."""
    if len(protected) == 1 and not group.startswith(f"{protected[0]}="):
        return f"{protected[0]}={group}"
    place = 0
    for column in protected:
        start = f" & {column}=" if place else f"{column}="
        found = group.find(start, place)
        if found < 0 or (not place and found):
            example = " & ".join(f"{each}=..." for each in protected)
            raise SpecError(f'--group: found "{group}"; write it as the groups are named: "{example}"')
        place = found + len(start)
    return group


def _print(report: Report | FamilyReport, *, last: bool, as_json: bool, quiet: bool) -> None:
    """Print a report immediately, in lines or as one JSON object; a quiet run prints only the last.

    Of several properties, a report before the last has a line for each that changed.
    """
    from fairchain.monitoring.stream import Report

    if quiet and not last:
        return
    found = report.to_dict() if last or as_json else {}
    screen, colour = Screen(), VERDICT_COLOURS[report.verdict]
    if as_json:
        print(json.dumps(found))
    elif not isinstance(report, Report):
        screen.line((report.verdict, colour), f": {len(report.reports)} properties")
        for place, (name, each) in enumerate(zip(report.names, report.reports, strict=True)):
            if not quiet and (last or place in report.changed):
                screen.line(in_a_line(f"  {_line(each)} ({name})"))
    elif not last:
        print(in_a_line(_line(report)))
    else:
        screen.line((report.verdict, colour), _line(report).removeprefix(report.verdict))
        if not quiet:
            rows = [
                [each["name"], f"{each['rows']:,}", f"{each['rate']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"]
                for each in found["groups"]
            ]
            screen.table(["group", "rows", "rate"], rows or [["none", "0", ""]])
            screen.lines(_notes(found))
    if last and not (as_json or quiet):
        screen.line((found["statement"], "bold"))
    sys.stdout.flush()


def _line(report: Report) -> str:
    from fairchain.monitoring.monitor import sentence

    progress = report.progress
    gap = progress.counts.seen().gap
    where = {"end": ", at the end of the input", "before": ", before this run"}.get(
        report.event, f" (line {progress.place.lines:,})"
    )
    since = (
        f", decided after {progress.now.rows:,}" if progress.now.rows < progress.counts.rows and progress.first else ""
    )
    return (
        f"{report.verdict} after {progress.counts.rows:,} rows{since}{where}: {sentence(gap, progress.counts.question)}"
    )


def _notes(found: dict[str, Any]) -> list[str]:
    notes = []
    if found["skipped"]:
        notes.append(f"{found['skipped']:,} lines could not be read and are not counted.")
    if found["left_out"]:
        notes.append(f"{found['left_out']:,} rows belong to other groups.")
    if found["verdict"] == "CONSTANT":
        have = "Every row has the outcome" if found["constant"] else "No row has the outcome"
        notes.append(
            f"{have}, so groups cannot differ and a verdict would be meaningless; check --outcome, or accept it "
            "with --allow-constant."
        )
    empty = [group["name"] for group in found["groups"] if not group["rows"]]
    notes += [f"Group {name} has no rows yet; check its spelling." for name in empty]
    if len(found["groups"]) < 2:
        notes.append("Fewer than two groups have rows, so nothing is compared.")
    elif found["verdict"] == "UNDECIDED":
        more = found["forecast"]
        if more:
            notes.append(f"About {more:,} more rows would suffice, if the rates remain the same.")
        elif not empty:
            notes.append("The gap is so near to the threshold that no number of rows can be forecast.")
    return notes
