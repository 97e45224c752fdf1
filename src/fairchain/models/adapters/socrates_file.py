"""Reading a network in the SOCRATES format: JSON that names its layers, with numbers inline or in text files.

A value is a JSON number or list, a text that holds one (`"(1,13)"`, `"[[0.5, 1], [2, 3]]"`), or the path of a file
with such a text. Nothing is evaluated, and only files in the JSON's own folder and below are read.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.onnx.file_checks import Limits

NUMBERS_ONLY = re.compile(r"[\s\[\](),0-9eE+.-]*")
MOST_LAYERS = 1000
NOT_SOCRATES_NETWORK = '{path}: not a SOCRATES network: the object "model" is missing'


class SocratesFile:
    """The description of a network, and the numbers it refers to, within one limit for all its files."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self._left = limits.file_bytes
        self._texts: dict[Path, str] = {}
        try:
            found = json.loads(self._read(path))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{path}: not valid JSON ({error}); give a SOCRATES network") from None
        model = found.get("model") if isinstance(found, dict) else None
        if not isinstance(model, dict):
            raise ModelError(NOT_SOCRATES_NETWORK.format(path=path))
        layers = model.get("layers")
        if not isinstance(layers, list) or not layers or not all(isinstance(layer, dict) for layer in layers):
            if "labels" in model:
                raise ModelError(f"{path}: is a spec, not a network; give the network's own file")
            pickled = "; it names a pickle (model.path), which is never opened" if "path" in model else ""
            raise ModelError(f"{path}: model.layers: found no list of layers{pickled}; write the layers with weights")
        if len(layers) > MOST_LAYERS:
            raise ModelError(f"{path}: model.layers: {len(layers)} layers are more than {MOST_LAYERS}")
        self.layers: list[dict[str, Any]] = layers
        self._shape = model.get("shape")

    def shape(self) -> tuple[int, ...]:
        """Return the shape of one input, without the batch, which is first in the file."""
        if self._shape is None:
            raise ModelError(f'{self.path}: model.shape: missing; write the shape of an input, for example "(1, 13)"')
        batch, *shape = as_whole_numbers(f"{self.path}: model.shape", self.numbers("model.shape", self._shape)) or (0,)
        if batch != 1 or not shape or min(shape) < 1:
            raise ModelError(
                f'{self.path}: model.shape: write 1 for the batch and then the sizes, for example "(1, 13)"'
            )
        return tuple(shape)

    def numbers(self, where: str, value: Any) -> NDArray[np.float64]:
        """Return the numbers of a value; `where` is for messages."""
        where = f"{self.path}: {where}"
        if isinstance(value, str):
            text = value if NUMBERS_ONLY.fullmatch(value) else self._beside(where, value)
            value = _from_text(where, text)
        try:
            found = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"{where}: not a number or a list of lists of one length; export it again") from None
        # The network computes in single precision, in which a larger number is infinite.
        if not (np.abs(found) <= np.finfo(np.float32).max).all():
            raise ModelError(
                f"{where}: contains a number that is not finite, or too large for a network; export it again"
            )
        return found

    def _beside(self, where: str, name: str) -> str:
        """Return the text of a file in the JSON's folder or below.

        Paths in such files are often relative to the folder of the program that wrote them, so leading parts are
        removed until a file is found.
        """
        folder = self.path.resolve().parent
        parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", ".")]
        if ".." in parts or not parts or len(name) > 1000 or "\0" in name:
            raise ModelError(f"{where}: {ascii(name)[:120]} is not a path inside the JSON's folder")
        for start in range(len(parts)):
            target = folder.joinpath(*parts[start:])
            with suppress(OSError):  # the system rejects a name, for example because it is too long
                if target.is_file():
                    if not target.resolve().is_relative_to(folder):
                        break
                    if target not in self._texts:
                        self._texts[target] = self._read(target)
                    return self._texts[target]
        raise ModelError(
            f'{where}: no file "{name}" in the JSON\'s own folder; put it at {folder.joinpath(*parts[-2:])}'
        )

    def _read(self, path: Path) -> str:
        try:
            if path.exists() and not path.is_file():
                raise ModelError(f"{path}: not a plain file; give a SOCRATES network (.json)")
            with path.open("rb") as file:
                content = file.read(self._left + 1)
        except (OSError, ValueError) as error:
            raise ModelError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
        self._left -= len(content)
        if self._left < 0:
            raise ModelError(f"{self.path}: with its text files, larger than the limit on the bytes of a model")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ModelError(f"{path}: not UTF-8 text; a SOCRATES network consists of text files") from None


def _from_text(where: str, text: str) -> Any:
    """Read a Python literal of numbers, tuples and lists as JSON."""
    if not NUMBERS_ONLY.fullmatch(text):
        raise ModelError(f"{where}: contains values that are not numbers; write numbers in brackets")
    text = text.translate({ord("("): "[", ord(")"): "]"})
    text = re.sub(r",\s*\]", "]", text)  # (13,) is a tuple of one
    text = re.sub(r"(?<![\d.])\.(?=\d)", "0.", text)  # .5
    text = re.sub(r"(?<=\d)\.(?!\d)", ".0", text)  # 5.
    text = re.sub(r"(?<![eE])\+(?=\d)", "", text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelError(f"{where}: not a number or a list of numbers; export it again") from None


def as_whole_numbers(where: str, values: NDArray[np.float64]) -> tuple[int, ...]:
    """Return these numbers as a flat list of integers, or raise a ModelError."""
    if not (values == np.floor(values)).all() or (np.abs(values) > 2**31).any():
        raise ModelError(f"{where}: found {values.ravel()[:8].tolist()}; write whole numbers")
    return tuple(int(value) for value in values.ravel())
