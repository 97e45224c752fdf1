"""The files of a repair, each written atomically.

A repaired network is written with its certificate and a list of the changes. For a model that is evaluated in Python
the thresholds are written. A repaired transformer can be written as a folder of `save_pretrained`: the repair was
searched and judged in an ONNX copy of the model, so the folder is loaded and verified again from its own files, and
must decide about every text of the corpus as that copy does; its certificate is about the folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.certificates import dump, make_certificate
from fairchain.errors import FairchainError, ModelError, OutputError
from fairchain.messages import listed
from fairchain.models.adapters.from_transformers import NETWORK, WEIGHT_FILES, is_folder
from fairchain.models.onnx.file_checks import parse_network
from fairchain.prepare import gather
from fairchain.repairing.judge import predicted
from fairchain.repairing.result import Repair
from fairchain.system.atomic_write import CANNOT_BE_WRITTEN, place
from fairchain.verification.verifier import verify_case

OVERWRITES_SOURCE = "{path}: is an input of the repair and would be overwritten; give another name"
STALE_CERTIFICATE = (
    "{certificate}: has the name of the certificate of this network, which has no certificate; give another name"
)
REPAIR_NOT_ACCEPTED = "the repair was not accepted; nothing is written"
# Files of a folder that are not copied: weights are written again, and code is never copied.
CERTIFICATE_FILE, CHANGES_FILE = "certificate.json", "changes.txt"
COPIED = (".json", ".txt", ".model", ".md")
# Prefix of the names of tensors in the ONNX copy.
TENSOR_PREFIX = "model."
ADDED = "bias_of_"
EXISTS = "{path}: exists already; give another name"
NO_WEIGHTS_CHANGED = (
    "{path}: the repair changes {what}, which the weights of the folder do not contain; write an .onnx file instead"
)
FOLDER_DECIDES_OTHERWISE = (
    "{path}: with the weights of the repair, the folder and the repaired network decide differently for {count:,} "
    "of {total:,} texts; write an .onnx file instead"
)
NOT_FAIR_AGAIN = "{path}: after a verification of its files the folder is {conclusion}; write an .onnx file instead"


def write_repair(repair: Repair, path: str | Path, *, source: str | Path | None = None, data: Any = None) -> list[Path]:
    """Write an accepted repair to files, and return their paths.

    The network is written to `path` with the suffix .onnx. Files beside the network contain a list of the changes and,
    if possible, the certificate. If the model is the folder of a transformer and `path` has no suffix, a new folder is
    written. The new folder is read and verified again. A model that is evaluated in Python has no network. Its
    decision thresholds are written to `path` with the suffix .json.

    Parameters
    ----------
    repair
        The result of `repair`.
    path
        The file or folder to write.
    source
        The folder that was repaired; by default the folder that the spec names.
    data
        The texts that were passed to `repair`, if the spec does not name a file.

    Raises
    ------
    FairchainError
        If the repair was not accepted, or if `path` is the network that was repaired. For a folder, a `ModelError`
        means that the weights of the folder cannot contain the repair. It can also mean that the repaired folder
        decides differently from the verified network, or is not FAIR.
    """
    path = Path(path)
    if not repair.accepted or repair.after is None:
        raise FairchainError(REPAIR_NOT_ACCEPTED)
    origin = source if source is not None else repair.before.spec.model.path
    if not path.suffix and repair.content is not None and is_weights_folder(origin):
        try:
            return write_folder(repair, Path(str(origin)), path, diff_report(repair), data)
        except OSError as error:
            raise OutputError(CANNOT_BE_WRITTEN.format(path=path, value=error.strerror or error)) from None
    if repair.content is None:
        thresholds, changes = path.with_suffix(".json"), path.with_suffix(".txt")
        place({thresholds: thresholds_text(repair).encode(), changes: diff_report(repair).encode()})
        return [thresholds, changes]
    path = path.with_suffix(".onnx")
    named = repair.before.spec.model.path
    same = path.is_file() and named is not None and Path(named).exists() and path.samefile(named)
    # The network that was repaired may also replace that of the spec.
    if same or (path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == repair.before.model_sha256):
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


def is_weights_folder(source: Any) -> bool:
    """Return whether a model was given as a folder with weights in safetensors."""
    if not isinstance(source, str | Path) or not is_folder(Path(source)):
        return False
    return any(Path(source).glob(WEIGHT_FILES)) and not (Path(source) / NETWORK).is_file()


def write_folder(repair: Repair, source: Path, target: Path, changes: str, data: Any = None) -> list[Path]:
    """Write an accepted repair of the folder `source` as the new folder `target`; return it and the files about it."""
    assert repair.after is not None
    if target.exists():
        raise FairchainError(EXISTS.format(path=target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".repair-") as place:
        folder = Path(place) / target.name
        folder.mkdir()
        for file in sorted(source.iterdir()):
            if file.is_file() and file.suffix in COPIED and file.name not in (CERTIFICATE_FILE, CHANGES_FILE):
                shutil.copyfile(file, folder / file.name)
        _write_weights(repair, source, folder, target)
        # The folder is verified from its own files, and its decisions are compared for each text.
        spec = replace(repair.after.spec, model=replace(repair.after.spec.model, path=str(folder)))
        case = gather(None, spec, data=data)
        assert case.model is not None
        assert case.rows is not None
        texts = case.rows.values
        other = int(np.count_nonzero(predicted(case.model, texts) != predicted(repair.model, texts)))
        if other:
            raise ModelError(FOLDER_DECIDES_OTHERWISE.format(path=target, count=other, total=len(texts)))
        verdict = verify_case(case, certify=True)
        if not verdict.fair:
            raise ModelError(NOT_FAIR_AGAIN.format(path=target, conclusion=verdict.conclusion))
        named = dataclasses.replace(verdict, spec=replace(spec, model=replace(spec.model, path=target.name)))
        (folder / CERTIFICATE_FILE).write_bytes(dump(make_certificate(named)).encode())
        (folder / CHANGES_FILE).write_text(changes, encoding="utf-8")
        folder.rename(target)
    return [target, target / CERTIFICATE_FILE, target / CHANGES_FILE]


def _write_weights(repair: Repair, source: Path, folder: Path, target: Path) -> None:
    """Copy the weights, with those that the repair changed in their original types."""
    tensors, torch = import_module("safetensors.torch"), import_module("torch")
    assert repair.content is not None
    from onnx import numpy_helper

    held = {each.name: each for each in parse_network(target, repair.content).graph.initializer}
    names = [change.tensor for change in repair.changes]
    changed = {name.removeprefix(TENSOR_PREFIX): numpy_helper.to_array(held[name]) for name in names}
    for file in sorted(source.glob(WEIGHT_FILES)):
        with import_module("safetensors").safe_open(file, "pt") as opened:
            told = opened.metadata()
        weights = tensors.load_file(file)
        for name in list(changed):
            if (own := _own_name(name, changed[name].shape, weights)) is not None:
                weights[own] = torch.from_numpy(np.array(changed.pop(name))).to(weights[own].dtype)
        tensors.save_file(weights, folder / file.name, told)
    if changed or not repair.changes:
        what = listed(sorted(changed)) if changed else "decision thresholds"
        raise ModelError(NO_WEIGHTS_CHANGED.format(path=target, what=what))


def _own_name(name: str, shape: tuple[int, ...], weights: Mapping[str, Any]) -> str | None:
    """Return the name of a tensor in the folder; a bias that the repair added replaces the only zero bias of its shape,
    which the ONNX copy lacks.
    """
    if name in weights:
        return name if tuple(weights[name].shape) == shape else None
    if not name.startswith(ADDED):
        return None
    alike = [each for each in weights if each.endswith("bias") and tuple(weights[each].shape) == shape]
    return alike[0] if len(alike) == 1 and not weights[alike[0]].any() else None
