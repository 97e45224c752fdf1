"""Writes the certificates that are kept in `fixtures/`, with the files that they are about.

    python -m tests.rechecking.make_fixtures

It writes those that are not there. When the format of certificates changes, add names for the new one: certificates
that others hold must be confirmed as before, so those that are there stay. The files are kept as they are, so that
another version of a package that writes them changes nothing.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from fairchain import make_certificate, parse_spec, verify
from fairchain.certificates import dump
from tests.questions import changed
from tests.rechecking.builders import audit, written
from tests.sequences import Network, Recurrent
from tests.text.builders import question

FIXTURES = Path(__file__).parent / "fixtures"
FILES = "files.json"
# For each certificate: population and property as in `builders`, what else is asked for, and the network and data.
ASKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "uniform-difference": ("uniform", "difference", {"delta": 0.05, "budget": {"rounds": 40_000}}),
    "uniform-individual": ("uniform", "individual", {}),
    "uniform-estimate": ("uniform", "difference", {"epsilon": 0.2, "delta": 0.1, "budget": {"rounds": 40_000}}),
    "uniform-enumeration": ("uniform", "every ratio", {"engine": "enumeration"}),
    "network-enumeration": ("network", "given", {"engine": "enumeration"}),
    "uniform-chosen-seed": ("uniform", "difference", {"seed": 7}),
    "marginals-ratio": ("marginals", "ratio", {}),
    "marginals-given": ("marginals", "given", {}),
    "network-overall": ("network", "overall", {}),
    "network-file": ("bif", "difference", {}),
    "table-population": ("population", "equal opportunity", {}),
    "table-sample": ("sample", "difference", {}),
    "table-recorded": ("recorded", "every ratio", {}),
    # Of version 7, whose intervals hold in one event, and whose batches follow forecasts.
    "uniform-difference-7": ("uniform", "difference", {"delta": 0.05, "budget": {"rounds": 40_000}}),
    "uniform-undecided-7": ("uniform", "difference", {"delta": 0.05, "budget": {"rounds": 300}}),
    "uniform-individual-7": ("uniform", "individual", {}),
    "uniform-estimate-7": ("uniform", "difference", {"epsilon": 0.2, "delta": 0.1, "budget": {"rounds": 40_000}}),
    "marginals-ratio-7": ("marginals", "ratio", {}),
    "network-overall-7": ("network", "overall", {}),
    "table-sample-7": ("sample", "difference", {}),
    "network-cut-7": ("network", "difference", {"delta": 1e-6, "budget": {"rounds": 30}}),
    # Of version 8, in which a batch that is cut short has the first rounds of what was planned.
    "network-cut-8": ("network", "difference", {"delta": 1e-6, "budget": {"rounds": 30}}),
    "uniform-difference-8": ("uniform", "difference", {"delta": 0.05, "budget": {"rounds": 40_000}}),
    "marginals-refined-8": ("marginals", "difference", {"refine": 0.02, "budget": {"rounds": 20_000}}),
}
TEXT: dict[str, dict[str, Any]] = {"text-observed": {}, "text-swapped": {"as": "swapped"}}


def restored(folder: Path) -> Path:
    """Write the kept files to a folder."""
    kept = json.loads((FIXTURES / FILES).read_text(encoding="utf-8"))
    for name, content in kept.items():
        (folder / name).write_bytes(base64.b64decode(content))
    return folder


def certificates(folder: Path, names: set[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each of these certificates about the files of a folder."""
    for name, (population, asked, guarantee) in ASKED.items():
        if name in names:
            spec = parse_spec(audit(folder, population, asked, **{"seed": None, **guarantee}))
            yield name, dump(make_certificate(verify(None, spec, workers=1), timed=False))
    for name, reading in TEXT.items():
        if name in names:
            data = changed(question(folder, **reading), "model.decision", ...)
            spec = parse_spec(changed(data, "model.path", str(folder / "lstm.onnx")))
            yield name, dump(make_certificate(verify(None, spec, workers=1), timed=False))


def main() -> None:
    """Make the certificates that are missing, and the files if they are."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["FAIRCHAIN_CACHE"] = str(folder / "cache")
        if not (FIXTURES / FILES).exists():
            written(folder)
            onnx.save(Network(Recurrent("LSTM", 5, 4, seed=2)).onnx(lengths=True), folder / "lstm.onnx")
            question(folder)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
            kept = {file: base64.b64encode(content).decode() for file, content in files.items() if file != "other.onnx"}
            (FIXTURES / FILES).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        missing = {each for each in (*ASKED, *TEXT) if not (FIXTURES / f"{each}.json").exists()}
        for certificate, text in certificates(restored(folder), missing):
            (FIXTURES / f"{certificate}.json").write_text(text, encoding="utf-8")
    print(f"{len(missing)} more certificates in {FIXTURES}", file=sys.stderr)


if __name__ == "__main__":
    main()
