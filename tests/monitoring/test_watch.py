"""Promise of the loop: any bytes give reports or one message, whatever their blocks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.errors import DataError
from fairchain.monitoring.lines import LineSource
from fairchain.monitoring.state import State, StreamSpec, read_state, write_state
from fairchain.monitoring.stream import StreamOptions, Watch

SPEC = StreamSpec(
    protected=("sex",), prediction="d", outcome="1", kind="difference", threshold=0.5, delta=0.05, groups=()
)
# fmt: off
PIECES = st.sampled_from([
    b"sex,d\n", b"F,1\n", b"M,0\n", b"M,1\r\n", b'"F', b'"', b",", b"\n", b"\r", b"\x00", b"\xff", b"{", b"}", b"F,\n",
    b'{"sex":"F","d":1}\n', b'{"sex":"M","d":"0"}\n', b'{"sex":null,"d":1}\n', b"\xef\xbb\xbf", b" ", b"[1]\n", b"F,1",
])
# fmt: on


@settings(max_examples=60)
@given(st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=40).map(b"".join)), st.booleans())
def test_any_bytes_are_read_or_refused_and_leave_a_state(data: bytes, skip_bad: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, kept = Path(folder) / "input", Path(folder) / "state.json"
        path.write_bytes(data)
        options = StreamOptions(resumable=True, skip_bad=skip_bad)
        with LineSource(path) as source:
            watch = Watch(source, SPEC, options=options)
            try:
                for report in watch.reports(keep_going=True, every=3):
                    assert report.to_dict()["verdict"] in ("FAIR", "UNFAIR", "UNDECIDED")
            except DataError as error:
                assert str(path) in str(error)  # noqa: PT017  # most inputs raise nothing
        place, counts = watch.progress.place, watch.progress.counts
        # What was counted is what stands before the place.
        assert counts.rows <= data[: place.size].count(b"\n")
        write_state(watch.state, kept)
        state = read_state(kept, State, [SPEC])
        assert state is not None
        with LineSource(path) as source:
            again = Watch(source, SPEC, state, options)
            assert again.progress.place.sha256 == place.sha256
            assert again.state == watch.state


@given(st.binary(max_size=200))
def test_any_state_file_is_read_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        path.write_bytes(data)
        try:
            assert read_state(path, State, [SPEC]) is not None
        except DataError as error:
            assert "start with a new --state" in str(error)  # noqa: PT017
