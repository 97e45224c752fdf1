"""Promises of `text.keeping`: what is kept comes back, and a strange or half-written file is as good as none."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pytest

from fairchain.text.files import keep, kept


def archive(content: bytes, name: str = "offered.npy", *, packed: bool = False) -> bytes:
    """A file of the cache, with its right digest in front."""
    body = BytesIO()
    with ZipFile(body, "w", ZIP_DEFLATED if packed else ZIP_STORED) as file:
        file.writestr(name, content)
    return sha256(body.getvalue()).digest() + body.getvalue()


def array(shape: str) -> bytes:
    """The beginning of an .npy file."""
    header = f"{{'descr':'<i4','fortran_order':False,'shape':{shape}}}".encode()
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header


STRANGE = {
    "more than any machine has": archive(array(f"({10**12},)")),
    "a header without end": archive(array("(")),
    "packed": archive(array("(1000000,)") + bytes(4_000_000), packed=True),
    "no array": archive(b"words", "offered.txt"),
    "no archive": sha256(b"junk").digest() + b"junk",
}


@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_a_strange_file_in_the_cache_is_as_good_as_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key.npz").write_bytes(content)
    assert kept(tmp_path, "key") is None


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(BytesIO):
        def getbuffer(self) -> memoryview:
            raise KeyboardInterrupt

    monkeypatch.setattr("fairchain.text.files.BytesIO", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        keep(tmp_path, "key", offered=np.zeros(3))
    assert not list(tmp_path.iterdir())


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    keep(tmp_path / "new", "key", offered=np.arange(3), total=np.array(7))
    found = kept(tmp_path / "new", "key")
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {"offered": [0, 1, 2], "total": 7}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["key.npz"]
