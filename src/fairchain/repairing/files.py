"""The files of a repair, each written atomically.

A repaired network is written with its certificate and a list of the changes. A repaired transformer can be written as a
folder. For a model that is evaluated in Python the thresholds are written.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairchain.certificates import dump, make_certificate
from fairchain.errors import FairchainError
from fairchain.repairing.folder import is_weights_folder, write_folder
from fairchain.repairing.result import Repair
from fairchain.system.atomic_write import place

OVERWRITES_SOURCE = "{path}: is an input of the repair and would be overwritten; give another name"
STALE_CERTIFICATE = (
    "{certificate}: has the name of the certificate of this network, which has no certificate; give another name"
)
REPAIR_NOT_ACCEPTED = "the repair was not accepted; nothing is written"


def write_repair(repair: Repair, path: str | Path, *, source: str | Path | None = None, data: Any = None) -> list[Path]:
    """Write an accepted network to `path`, with its certificate and its changes next to it; return the paths.

    If the model is a transformer's folder and `path` has no suffix, a new folder is written, and verified again from
    its files. A model that is evaluated in Python has no network: its thresholds are written to `path` with the suffix
    .json.

    Parameters
    ----------
    repair
        The result of `repair`.
    path
        The file, or the folder.
    source
        The folder that was repaired; by default that of the spec.
    data
        The texts that were given to `repair`, if the spec names no file.

    Raises
    ------
    FairchainError
        If the repair was not accepted, or `path` is the network that was repaired; a ModelError if the repaired folder
        would decide differently from the network that was verified.
    """
    path = Path(path)
    if not repair.accepted or repair.after is None:
        raise FairchainError(REPAIR_NOT_ACCEPTED)
    origin = source if source is not None else repair.before.spec.model.path
    if not path.suffix and repair.content is not None and is_weights_folder(origin):
        return write_folder(repair, Path(str(origin)), path, diff_report(repair), data)
    if repair.content is None:
        thresholds, changes = path.with_suffix(".json"), path.with_suffix(".txt")
        place({thresholds: thresholds_text(repair).encode(), changes: diff_report(repair).encode()})
        return [thresholds, changes]
    path = path.with_suffix(".onnx")
    if _is_original(repair, path):
        raise FairchainError(OVERWRITES_SOURCE.format(path=path))
    certificate, changes = path.with_suffix(".json"), path.with_suffix(".txt")
    content = repair_certificate(repair, path.name)
    if content is None and certificate.exists():
        raise FairchainError(STALE_CERTIFICATE.format(certificate=certificate))
    # The certificate is written first: a network without one may be mistaken for a certified one.
    contents = {certificate: content} if content is not None else {}
    place({**contents, changes: diff_report(repair).encode(), path: repair.content})
    return [path, *contents, changes]


def repair_certificate(repair: Repair, name: str, *, timed: bool = True) -> bytes | None:
    """Return the certificate of a repaired network in a file of this name; None if it cannot have one."""
    if repair.after is None or not repair.after.certifiable or not repair.recheckable:
        return None
    spec = repair.after.spec
    named = dataclasses.replace(repair.after, spec=replace(spec, model=replace(spec.model, path=name)))
    return dump(make_certificate(named, timed=timed)).encode()


def _is_original(repair: Repair, path: Path) -> bool:
    """Return whether the path is the network that was repaired: the spec's, or the given replacement."""
    named = repair.before.spec.model.path
    if not path.is_file():
        return False
    if named is not None and Path(named).exists() and path.samefile(named):
        return True
    return hashlib.sha256(path.read_bytes()).hexdigest() == repair.before.model_sha256


def thresholds_text(repair: Repair) -> str:
    """Return the thresholds of a model that is evaluated in Python as JSON; the second label is decided above them."""
    assert repair.after is not None
    labels = repair.after.spec.model.labels
    values = {
        "label_above": labels[1],
        "label_else": labels[0],
        "thresholds": [{"name": each.name, "before": each.before, "after": each.after} for each in repair.adjustments],
        "groups": [each.to_dict() for each in repair.groups],
        "statement": repair.statement,
        "notes": list(repair.notes),
    }
    return json.dumps(values, indent=1) + "\n"


def diff_report(repair: Repair) -> str:
    """Return the changes, their price and the judgements as plain text."""
    lines = [str(repair), "", f"Before: {repair.before.record.sentence}"]
    if repair.after is not None:
        lines += [f"After:  {repair.after.record.sentence}", f"Price:  {repair.price}"]
    lines += ["", f"Chosen by the search ({repair.optimizer}, {repair.change}, seed {repair.seed}):"]
    lines += [f"  {a.name}: {a.before:.6g} -> {a.after:.6g}" for a in repair.adjustments if a.before != a.after]
    if repair.groups:
        lines += ["", f"Groups, on {repair.price.on if repair.price is not None else 'these inputs'}:"]
        for group in repair.groups:
            moved = (
                "" if group.threshold is None else f", threshold {group.threshold_before:.6g} -> {group.threshold:.6g}"
            )
            lines.append(
                f"  {group.group}: P({group.outcome}) {group.before:.4f} -> {group.after:.4f}, {group.gained:,} gained "
                f"it and {group.lost:,} lost it, of {group.inputs:,}{moved}"
            )
    lines += ["", "Weights that changed:"] if repair.changes else []
    for change in repair.changes:
        shape = " x ".join(str(size) for size in change.shape)
        lines.append(
            f"  {change.tensor} ({change.operator}, {shape}): {change.changed:,} of {change.size:,}, "
            f"by {change.relative:.2%} of its length"
        )
        for weight in change.largest:
            place = ", ".join(str(i) for i in weight.index)
            lines.append(f"    [{place}] {weight.before:.6g} -> {weight.after:.6g}")
    lines += ["", "Attempts of the final verification:"]
    for attempt in repair.attempts:
        found = attempt.why if attempt.gap is None else f"{attempt.gap:.4f}; {attempt.price}"
        lines.append(f"  {attempt.number}. delta {attempt.delta:g}: {attempt.decision}, {found}")
    return "\n".join([*lines, "", repair.statement, *repair.notes, ""])
