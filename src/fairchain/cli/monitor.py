"""The command `monitor`: read decisions, report a verdict as soon as the data decide, keep the counts in a file."""

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
from fairchain.cli.exit_codes import VERDICTS
from fairchain.cli.options import PATH
from fairchain.cli.output import must_be_writable
from fairchain.errors import OutputError, SpecError
from fairchain.messages import in_a_line
from fairchain.system.interrupts import raising

if TYPE_CHECKING:
    from fairchain.monitoring.stream import Report, Watch

# Between two writes of the state while nothing happens.
SECONDS = 5.0


class Terminated(BaseException):
    """SIGTERM: ends the program as an exception, so that the state is written."""


@click.command(
    short_help="Watch decisions as they are made.",
    epilog="Example: tail -f decisions.csv | fairchain monitor --protected sex --prediction decision --outcome yes "
    "--threshold 0.1",
)
@click.argument("file", type=PATH, required=False)
@click.option("--protected", multiple=True, required=True, help="Column with the groups; repeat for combinations.")
@click.option("--prediction", required=True, help="Column with the decisions.")
@click.option("--outcome", required=True, help="Decision whose rate is compared.")
@click.option("--threshold", type=float, required=True, help="Largest difference, or smallest ratio, that is fair.")
@shared.choice("--kind", ["difference", "ratio"], "What is measured.", default="difference")
@click.option("--delta", type=float, default=0.05, show_default=True, help="Largest probability of a wrong report.")
@click.option("--group", "groups", multiple=True, help="Group to compare; by default all of them. Repeatable.")
@click.option("--state", type=PATH, help="File that keeps the counts; a later run continues from it.")
@shared.count("--every", "Number of rows between two reports.")
@click.option("--keep-going", is_flag=True, help="Continue after the first decision; report every change.")
@click.option("--skip-bad", is_flag=True, help="Skip and count lines that cannot be read.")
@shared.allow_constant
@shared.choice("--format", ["csv", "jsonl"], "Format of the input; by default from its suffix or start.", to="form")
@click.option("--delimiter", default=",", show_default=True, help="Delimiter of CSV cells; \\t is a tab.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each report and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict.")
def monitor(
    file: Path | None,
    groups: tuple[str, ...],
    state: Path | None,
    every: int | None,
    keep_going: bool,
    skip_bad: bool,
    allow_constant: bool | None,
    form: Any,
    delimiter: str,
    as_json: bool,
    quiet: bool,
    **question: Any,
) -> int:
    """Read decisions from FILE or standard input (CSV with a header, or JSON Lines); report when the data decide.

    The interval of the gap is valid after every row. Exit code 0 fairness established, 1 violated, 3 the
    input ended before either or all rows have the same decision, 2 bad input or a result that cannot be written.
    """
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import StreamSpec, read_state, sole_use
    from fairchain.monitoring.stream import Watch

    protected: tuple[str, ...] = question["protected"]
    spec = StreamSpec(groups=tuple(_full_name(group, protected) for group in groups), **question)
    for name in spec.columns:
        if spec.columns.count(name) > 1:
            raise SpecError(f'--protected, --prediction: "{name}" is named twice; every column can play one part only')
    if not all((*spec.columns, spec.outcome)):
        raise SpecError("--protected, --prediction, --outcome: found an empty text; write a name")
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise SpecError(f'--delimiter: found "{delimiter}"; write one character, for example ";"')
    if state is not None and state.is_symlink():
        # One state has one lock, by whatever name it is used.
        state = Path(os.path.realpath(state))
    if state is not None:
        must_be_writable(state, "--state")
    # The state is read after it is locked, and written before the lock is released.
    with sole_use(state) if state is not None else nullcontext(), LineSource(file) as source:
        watch = Watch(
            source,
            spec,
            read_state(state, spec) if state is not None else None,
            resumable=state is not None,
            form=form,
            delimiter=delimiter,
            skip_bad=skip_bad,
            allow_constant=bool(allow_constant),
        )
        with _kept(watch, state) as save:
            try:
                for report in watch.reports(every=every, keep_going=keep_going, after_block=save):
                    last = report.event in ("end", "before") or (report.event == "change" and not keep_going)
                    _print(report, last=last, as_json=as_json, quiet=quiet)
            except (KeyboardInterrupt, Terminated):
                print(f"S{_so_far(watch)[1:]}.", file=sys.stderr)
                raise
        if source.unfinished:
            print("The last line is not complete yet; the next run reads it.", file=sys.stderr)
    return VERDICTS[watch.progress.concluded(watch.question)]


@contextmanager
def _kept(watch: Watch, path: Path | None) -> Iterator[Any]:
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
        if time.monotonic() - last > SECONDS:
            write()
            last = time.monotonic()

    with raising(KeyboardInterrupt) as by_ctrl_c, raising(Terminated, signal.SIGTERM) as by_sigterm:
        try:
            yield save
        finally:
            # No signal may break off this write: the rows of a stream cannot be read again.
            try:
                by_ctrl_c.close()
                by_sigterm.close()
            finally:
                write()


def _so_far(watch: Watch) -> str:
    return f"stopped after {watch.progress.counts.rows:,} rows: {watch.progress.concluded(watch.question)}"


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


def _print(report: Report, *, last: bool, as_json: bool, quiet: bool) -> None:
    """Print a report at once, as a line or as one JSON object; of a quiet run only the last."""
    if quiet and not last:
        return
    if as_json:
        print(json.dumps(report.to_dict()))
    elif not last:
        print(in_a_line(_line(report)))
    else:
        from fairchain.cli.terminal import Screen
        from fairchain.cli.verdict_display import COLOURS

        found, screen = report.to_dict(), Screen()
        head, _, rest = _line(report).partition(" ")
        screen.line((head, COLOURS[report.verdict]), f" {rest}")
        if not quiet:
            rows = [
                [each["name"], f"{each['rows']:,}", f"{each['rate']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"]
                for each in found["groups"]
            ]
            screen.table(["group", "rows", "rate"], rows or [["none", "0", ""]])
            for note in _notes(found):
                screen.line(note)
            screen.line((found["statement"], "bold"))
    sys.stdout.flush()


def _line(report: Report) -> str:
    from fairchain.monitoring.monitor import sentence

    progress = report.progress
    gap = progress.counts.seen(report.question).gap(report.question)
    where = {"end": ", at the end of the input", "before": ", before this run"}.get(
        report.event, f" (line {progress.place.lines:,})"
    )
    since = (
        f", decided after {progress.now.rows:,}" if progress.now.rows < progress.counts.rows and progress.first else ""
    )
    return f"{report.verdict} after {progress.counts.rows:,} rows{since}{where}: {sentence(gap, report.question)}"


def _notes(found: dict[str, Any]) -> list[str]:
    notes = []
    if found["skipped"]:
        notes.append(f"{found['skipped']:,} lines could not be read and are not counted.")
    if found["left_out"]:
        notes.append(f"{found['left_out']:,} rows belong to other groups.")
    if found["verdict"] == "CONSTANT":
        have = "Every row has the outcome" if found["constant"] else "No row has the outcome"
        notes.append(
            f"{have}, so groups cannot differ and nothing is shown about how they are treated; check --outcome, or "
            "accept it with --allow-constant."
        )
    empty = [group["name"] for group in found["groups"] if not group["rows"]]
    notes += [f"Group {name} has no rows yet: is it spelled so?" for name in empty]
    if len(found["groups"]) < 2:
        notes.append("There are not two groups to compare.")
    elif found["verdict"] == "UNDECIDED":
        more = found["forecast"]
        if more:
            notes.append(f"About {more:,} more rows would decide it, if the rates remain the same.")
        elif not empty:
            notes.append("The gap is so near to the threshold that no number of rows can be forecast.")
    return notes
