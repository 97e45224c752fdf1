"""The files of a repair: the network, its certificate and the changes as text, each written whole or not at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from msgspec.structs import replace as replace_key

from fairchain.certificate import write_certificate, write_text
from fairchain.errors import FairchainError
from fairchain.repairing.result import Repair


def write_repair(repair: Repair, path: str | Path) -> list[Path]:
    """Write an accepted network to `path`, its certificate and what changed beside it; returns the files.

    Raises
    ------
    FairchainError
        If the repair was not accepted: there is nothing that could be vouched for.
    """
    path = Path(path)
    if not repair.accepted or repair.content is None or repair.after is None:
        raise FairchainError("the repair was not accepted; nothing is written")
    certificate, changes = path.with_suffix(".json"), path.with_suffix(".txt")
    model = replace_key(repair.after.spec.model, path=path.name)
    verdict = replace(repair.after, spec=replace_key(repair.after.spec, model=model))
    files = [path]
    # The certificate first: a network without one may be mistaken for a certified one.
    if verdict.certifiable:
        write_certificate(verdict, certificate)
        files.append(certificate)
    write_text(changes, diff_report(repair))
    _write_bytes(path, repair.content)
    return [*files, changes]


def diff_report(repair: Repair) -> str:
    """What changed, from what to what, and what it bought: plain text."""
    lines = [str(repair), "", f"Before: {repair.before}"]
    if repair.after is not None:
        lines += [f"After:  {repair.after}", f"Price:  {repair.price}"]
    lines += ["", f"Chosen by the search ({repair.optimizer}, {repair.change}, seed {repair.seed}):"]
    lines += [f"  {a.name}: {a.before:.6g} -> {a.after:.6g}" for a in repair.adjustments if a.before != a.after]
    lines += ["", "Weights that changed:"]
    for change in repair.changes:
        shape = " x ".join(str(size) for size in change.shape)
        lines.append(
            f"  {change.tensor} ({change.operator}, {shape}): {change.changed:,} of {change.size:,}, "
            f"by {change.relative:.2%} of its length"
        )
        for weight in change.largest:
            place = ", ".join(str(i) for i in weight.index)
            lines.append(f"    [{place}] {weight.before:.6g} -> {weight.after:.6g}")
    lines += ["", "Attempts before the judge:"]
    lines += [f"  {a.number}. delta {a.delta:g}: {a.decision}, {a.gap:.4f}; {a.price}" for a in repair.attempts]
    return "\n".join([*lines, "", repair.statement, *repair.notes, ""])


def _write_bytes(path: Path, content: bytes) -> None:
    with NamedTemporaryFile("wb", dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(content)
    try:
        os.chmod(file.name, 0o644)  # noqa: PTH101  # a temporary file is private by default
        os.replace(file.name, path)  # noqa: PTH105
    except OSError:
        os.unlink(file.name)  # noqa: PTH108
        raise
