"""The files of a repair: the network, its certificate and the changes as text, each written whole or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from msgspec.structs import replace

from fairchain.certificates import dump, make_certificate
from fairchain.errors import FairchainError
from fairchain.repairing.result import Repair
from fairchain.system.atomic_write import place


def write_repair(repair: Repair, path: str | Path) -> list[Path]:
    """Write an accepted network to `path`, its certificate and the changes beside it; return the files.

    Raises a FairchainError if the repair was not accepted, or if `path` is the network that was repaired.
    """
    path = Path(path)
    if not repair.accepted or repair.content is None or repair.after is None:
        raise FairchainError("the repair was not accepted; nothing is written")
    if _is_original(repair, path):
        raise FairchainError(f"{path}: would be overwritten, and the repair is made from it; give another name")
    certificate, changes = path.with_suffix(".json"), path.with_suffix(".txt")
    content = certificate_of(repair, path.name)
    if content is None and certificate.exists():
        raise FairchainError(
            f"{certificate}: would be taken for the certificate of this network, which has none; give another name"
        )
    # The certificate first: a network without one may be mistaken for a certified one.
    contents = {certificate: content} if content is not None else {}
    place({**contents, changes: diff_report(repair).encode(), path: repair.content})
    return [path, *contents, changes]


def certificate_of(repair: Repair, name: str, *, timed: bool = True) -> bytes | None:
    """Return the certificate of a repaired network in a file of this name; None if it cannot have one."""
    if repair.after is None or not repair.after.certifiable:
        return None
    spec = repair.after.spec
    named = dataclasses.replace(repair.after, spec=replace(spec, model=replace(spec.model, path=name)))
    return dump(make_certificate(named, timed=timed)).encode()


def _is_original(repair: Repair, path: Path) -> bool:
    """Return whether the path is the network that was repaired: the spec's, or one that was given in its place."""
    named = repair.before.spec.model.path
    if not path.is_file():
        return False
    if named is not None and Path(named).exists() and path.samefile(named):
        return True
    return hashlib.sha256(path.read_bytes()).hexdigest() == repair.before.model_sha256


def diff_report(repair: Repair) -> str:
    """Return the changes, their price and the judgements as plain text."""
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
    for attempt in repair.attempts:
        found = attempt.why if attempt.gap is None else f"{attempt.gap:.4f}; {attempt.price}"
        lines.append(f"  {attempt.number}. delta {attempt.delta:g}: {attempt.decision}, {found}")
    return "\n".join([*lines, "", repair.statement, *repair.notes, ""])
