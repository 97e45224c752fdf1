"""Monitoring of a stream: blocks of lines are read, reports are yielded, and the state always belongs to whole rows.

The progress is replaced in one step, so that an interrupt loses at most the rows of one block; for a file they are read
again.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from fairchain.errors import DataError
from fairchain.monitoring.bounds import GroupCounts, advance
from fairchain.monitoring.lines import LineSource, Place
from fairchain.monitoring.monitor import describe_monitor
from fairchain.monitoring.rows import (
    Encoder,
    Form,
    Grouping,
    ParsedLines,
    Parser,
    csv_parser,
    json_parser,
    stream_format,
)
from fairchain.monitoring.state import FIRST_TURN, GroupState, Read, State, StreamSpec, Turn, Verdict
from fairchain.statistics.rules import Decision

# The decisions that end a run, unless it should continue.
EMPTY_STREAM = "{name}: is empty; give a CSV file with a header, or JSON Lines"
ENDING_VERDICTS = ("FAIR", "UNFAIR")


@dataclass(frozen=True, eq=False)
class StreamProgress:
    """The progress of a stream: counts, position and decision after some rows."""

    counts: GroupCounts
    place: Place
    left_out: int = 0
    skipped: int = 0
    now: Turn = FIRST_TURN
    first: Turn | None = None

    @property
    def verdict(self) -> str:
        """The conclusion for a gate: FAIR, UNFAIR, UNDECIDED or CONSTANT."""
        return self.counts.concluded(Decision[self.now.verdict])


@dataclass(frozen=True, eq=False)
class Report:
    """One report: `event` is change, every, end, or before if it was decided when the run began."""

    event: str
    progress: StreamProgress

    @property
    def verdict(self) -> str:
        """FAIR, UNFAIR, UNDECIDED or CONSTANT."""
        return self.progress.verdict

    @property
    def unfair(self) -> frozenset[int]:
        """The indices of the properties that are UNFAIR: for one property, 0."""
        return frozenset({0} if self.verdict == "UNFAIR" else ())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        progress = self.progress
        return {
            "event": self.event,
            "line": progress.place.lines,
            "since": progress.now.rows,
            **describe_monitor(Decision[progress.now.verdict], progress.counts.seen()),
            "left_out": progress.left_out,
            "skipped": progress.skipped,
        }


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How an input is read, and which verdicts count."""

    # Whether a state is kept: then the last line of a file counts only once it has an end.
    resumable: bool = False
    # None: inferred from the input.
    form: Form | None = None
    delimiter: str = ","
    # Whether lines that cannot be read are skipped and counted.
    skip_bad: bool = False
    allow_constant: bool = False


DEFAULT_OPTIONS = StreamOptions()


class Watch:
    """The monitor of one property of an input, which continues from the state of an earlier run.

    `grouping` gives the group of a row, by default the combination of its values, and `labels` are the possible
    decisions, by default any. `passed` is the position after the lines of an earlier run, if another monitor of this
    source has skipped them.
    """

    def __init__(
        self,
        source: LineSource,
        spec: StreamSpec,
        state: State | None = None,
        options: StreamOptions = DEFAULT_OPTIONS,
        *,
        grouping: Grouping | None = None,
        labels: Sequence[str] = (),
        passed: tuple[Place, bytes] | None = None,
    ) -> None:
        self.passed = passed
        self._spec, self._source, self._options, self._form = spec, source, options, options.form
        self._parser: Parser | None = None
        self.progress = StreamProgress(GroupCounts.none(spec.monitored(allow_constant=options.allow_constant)), Place())
        if state is not None:
            self._resume(state)
        self._encoder = Encoder(spec, self.progress.counts.names, grouping, labels)

    def _resume(self, state: State) -> None:
        if (state.file is not None) != self._source.regular:
            was = "a file" if state.file else "a stream"
            raise DataError(
                f"{self._source.name}: the state was made from {was}; give the same kind of input, or start with a "
                "new --state"
            )
        if self.passed is None:
            read = state.file
            self.passed = self._source.skip(read.bytes, read.sha256) if read else (Place(), b"")
        place, start = self.passed
        if state.file and start:
            self._form = self._form or state.file.format
            self._parser = self._parser_for(start)[0]
        counts = GroupCounts(
            self.progress.counts.question,
            tuple(group.name for group in state.groups),
            np.array([group.rows for group in state.groups], np.int64),
            np.array([group.successes for group in state.groups], np.int64),
        )
        self.progress = StreamProgress(counts, place, state.left_out, state.skipped, state.now, state.first)

    @property
    def state(self) -> State:
        """The state, for a file."""
        progress, read = self.progress, None
        counts, place = progress.counts.seen(), progress.place
        if self._source.regular:
            read = Read(format=self._form if place.size else None, bytes=place.size, sha256=place.sha256)
        return State(
            question=self._spec,
            groups=tuple(
                GroupState(name=name, rows=int(rows), successes=int(successes))
                for name, rows, successes in zip(counts.names, counts.trials, counts.successes, strict=True)
            ),
            left_out=progress.left_out,
            skipped=progress.skipped,
            now=progress.now,
            first=progress.first,
            file=read,
        )

    def reports(
        self, *, every: int | None = None, keep_going: bool = False, after_block: Callable[[], None] = lambda: None
    ) -> Iterator[Report]:
        """Read the input and yield a report for every change of the decision, and one at the end.

        Without `keep_going` the first decision ends it, but not FAIR while all rows have the same decision. With
        `every` there is also a report after each multiple of this number of rows.
        """
        if self.progress.verdict in ENDING_VERDICTS and not keep_going:
            yield Report("before", self.progress)
            return
        for raw in self._source.blocks(self.progress.place.lines + 1, keep_unfinished=self._options.resumable):
            for report in self._take(raw, every):
                ends = report.event == "change" and report.verdict in ENDING_VERDICTS and not keep_going
                if ends or keep_going or report.event != "change":
                    yield report
                if ends:
                    return
            after_block()
        if not self.started:
            raise DataError(EMPTY_STREAM.format(name=self._source.name))
        yield Report("end", self.progress)

    @property
    def verdict(self) -> str:
        """FAIR, UNFAIR, UNDECIDED or CONSTANT, so far."""
        return self.progress.verdict

    @property
    def rows(self) -> int:
        """The number of counted rows."""
        return self.progress.counts.rows

    @property
    def started(self) -> bool:
        """Whether a line was read, in this run or an earlier one."""
        return self._parser is not None

    def feed(self, raw: bytes) -> None:
        """Count whole lines."""
        for _ in self._take(raw, None):
            pass

    def _parser_for(self, start: bytes) -> tuple[Parser, int]:
        """Return the parser, and the number of bytes of the header at the start."""
        self._form = self._form or stream_format(Path(self._source.name).suffix, start)
        if self._form == "jsonl":
            return json_parser(self._spec.columns), 0
        size = start.find(b"\n") + 1 or len(start)
        return csv_parser(start[:size], self._spec.columns, self._options.delimiter, self._source.name), size

    def _take(self, raw: bytes, every: int | None) -> Iterator[Report]:
        """Count a block of lines; a report is yielded at its row."""
        if self._parser is None:
            self._parser, header = self._parser_for(raw)
            self.progress = replace(self.progress, place=self.progress.place.after(raw[:header]))
            raw = raw[header:]
        if not raw:
            return
        block = _Block(raw, self._parser(raw), self._encoder, skip_bad=self._options.skip_bad)
        first_line, before = self.progress.place.lines + 1, self.progress
        counts, done = before.counts.widened(self._encoder.names), 0
        while done < len(block.counted):
            stop = len(block.counted)
            if every:
                stop = min(stop, done + every - counts.rows % every)
            former, conclusion = Decision[self.progress.now.verdict], self.progress.verdict
            taken, counts, decision = advance(counts, former, block.groups[done:stop], block.hits[done:stop])
            done += taken
            progress = self._advanced(before, counts, block, done, decision if decision is not former else None)
            if decision is not former:
                self._must_be_meant(progress)
            self.progress = progress
            if progress.verdict != conclusion:
                yield Report("change", progress)
            elif every and counts.rows % every == 0:
                yield Report("every", self.progress)
        self.progress = self._advanced(before, counts, block)
        if block.error is not None:
            line, problem = block.error
            raise DataError(f"{self._source.name}, line {first_line + line}: {problem}")

    def _advanced(
        self,
        before: StreamProgress,
        counts: GroupCounts,
        block: _Block,
        done: int | None = None,
        changed: Decision | None = None,
    ) -> StreamProgress:
        """Return the progress after this many counted rows of a block, or after all its lines."""
        size, left_out, skipped = block.until(done)
        # Only the bytes since the last time: one block can have many reports.
        fresh = block.raw[self.progress.place.size - before.place.size : size]
        now, first = self.progress.now, self.progress.first
        if changed:
            now = Turn(verdict=cast("Verdict", changed.name), rows=counts.rows)
            first = first or (None if now.verdict == "UNDECIDED" else now)
        return StreamProgress(
            counts,
            self.progress.place.after(fresh) if fresh else self.progress.place,
            before.left_out + left_out,
            before.skipped + skipped,
            now,
            first,
        )

    def _must_be_meant(self, progress: StreamProgress) -> None:
        """Refuse FAIR for an outcome that no row has if one of the observed decisions is nearly the same text.

        An outcome may be rare, so it may not have occurred yet. A misspelt outcome never occurs.
        """
        outcome, labels = self._spec.outcome, self._encoder.labels
        if progress.now.verdict != "FAIR" or progress.counts.successes.any() or outcome in labels:
            return
        alike = [label for label in sorted(labels) if _nearly_the_same(label, outcome)]
        if alike:
            raise DataError(
                f'{self._source.name}: none of {progress.counts.rows:,} rows has the outcome "{outcome}" in column '
                f'"{self._spec.prediction}", but some have "{alike[0]}"; check --outcome'
            )


def _nearly_the_same(one: str, other: str) -> bool:
    """Return whether two texts are one number, or differ in case, in spaces or by one letter."""
    with suppress(ValueError):
        return float(one) == float(other)
    one, other = ("".join(text.casefold().split()) for text in (one, other))
    if len(one) > len(other):
        one, other = other, one
    # Single letters and digits are separate names: 0 is not a misspelling of 1.
    if one == other or len(other) < 3:
        return one == other
    same = next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
    return len(other) - len(one) < 2 and one[same + (len(one) == len(other)) :] == other[same + 1 :]


class _Block:
    """A block of lines: the rows that are counted, those left out, and bad lines.

    Everything from the first line that cannot be counted is left out; `error` is that line and its problem. Bad lines
    are skipped with `skip_bad`.
    """

    def __init__(self, raw: bytes, parsed: ParsedLines, encoder: Encoder, *, skip_bad: bool) -> None:
        self.raw, self._lines = raw, parsed.lines
        groups, hits = encoder.encode(parsed.keys)
        self._ends: Any = None
        self._last, self._rows = len(raw), len(groups)
        self._bad = [line for line, _ in parsed.bad]
        self.counted = np.flatnonzero(groups >= 0)
        self._left_out = np.flatnonzero(groups == Encoder.LEFT_OUT)
        self.error: tuple[int, str] | None = None
        if parsed.bad and not skip_bad:
            line, problem = parsed.bad[0]
            self.error = line, f"{problem}; fix it, or skip such lines with --skip-bad"
        troubled = np.flatnonzero(groups == Encoder.TROUBLE)
        if len(troubled) and (self.error is None or self._lines[troubled[0]] < self.error[0]):
            self.error = self._lines[troubled[0]], encoder.trouble
        if self.error is not None:
            line = self.error[0]
            self._rows = bisect.bisect_left(self._lines, line)
            self._last = self._end(line - 1)
            self._bad = self._bad[: bisect.bisect_left(self._bad, line)]
            self.counted = self.counted[self.counted < self._rows]
        self.groups, self.hits = groups[self.counted], hits[self.counted]

    def until(self, done: int | None) -> tuple[int, int, int]:
        """Return bytes, rows left out and bad lines up to the end of this many counted rows, or of everything."""
        if done is None:
            return self._last, int(np.searchsorted(self._left_out, self._rows)), len(self._bad)
        row = int(self.counted[done - 1])
        line = self._lines[row]
        return self._end(line), int(np.searchsorted(self._left_out, row)), bisect.bisect_left(self._bad, line)

    def _end(self, line: int) -> int:
        """Return where a line ends, in bytes."""
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self.raw, np.uint8) == ord("\n")) + 1
        if line < 0:
            return 0
        return int(self._ends[line]) if line < len(self._ends) else len(self.raw)
