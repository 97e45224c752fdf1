"""A repaired transformer as a folder of `save_pretrained`: safetensors, settings and tokenizer, like the original.

The repair was searched and judged in an ONNX copy of the model. The folder is loaded and verified again from its own
files, and must decide about every text of the corpus as that copy does; its certificate is about the folder.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.certificates import dump, make_certificate
from fairchain.errors import FairchainError, ModelError
from fairchain.messages import listed
from fairchain.models.adapters.from_transformers import NETWORK, WEIGHT_FILES, is_folder
from fairchain.models.onnx.file_checks import parse_network
from fairchain.prepare import gather
from fairchain.repairing.judge import predicted
from fairchain.repairing.result import Repair
from fairchain.verification.verifier import verify_case

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
        content = _verified(repair, folder, target, data)
        (folder / CERTIFICATE_FILE).write_bytes(content)
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


def _verified(repair: Repair, folder: Path, target: Path, data: Any) -> bytes:
    """Verify the folder from its own files, compare its decisions for each text, and return its certificate."""
    assert repair.after is not None
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
    return dump(make_certificate(named)).encode()
