"""What adapters share: a model is evaluated as it is, or converted to a network if the two agree; archives.

On the rows of a table a model is called as it is, since converting takes longer than its answers. A converted network
is faster for many drawn inputs, can be hashed and saved, and so can be certified. Where conversion fails, the verdict
is about the model all the same, and a note says why there is no certificate.
"""

from __future__ import annotations

import io
import logging
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.shown_inputs import flat_array
from fairchain.models.base import MisfitError, random_inputs, same_answers
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec
from fairchain.system.user_code import first_line
from fairchain.tables import TableRows

# Random inputs about which a network must decide exactly as its original does.
COMPARED_ROWS = 4096
# Rows on which a network must score as its original does, one by one as well as together; of texts fewer one by one,
# since a framework takes its time for each of their steps. A larger batch shows whether the original treats that alike.
COMPARED_TOGETHER, TEXTS_ALONE = 64, 16
LARGE, TEXTS_LARGE = 8192, 128
CONVERSION_DIFFERS = "the converted network decides differently for {other:,} of {values_count:,} rows"
UNPACKED_TOO_LARGE = "{path}: unpacks to more than the limit of {most} bytes"
MEMBER_TWICE = "{path}: contains {name} twice; save the model again"
DAMAGED_ARCHIVE = "{path}: not {kind}, or a damaged one ({error}); save the model again"
NOT_CONVERTED = "{name} is evaluated in Python, without a certificate: it could not be converted to ONNX ({problem})"


def converted_or_original(
    name: str,
    spec: Spec,
    limits: Limits | None,
    *,
    convert: Callable[[], bytes] | Sequence[Callable[[], bytes]],
    agrees: Callable[[OnnxModel], bool],
    unconverted: Callable[[], FunctionModel],
    rows: TableRows | None = None,
    later: Callable[..., OnnxModel | FunctionModel] | None = None,
    note: str = "",
) -> OnnxModel | FunctionModel:
    """Return the network that `convert` makes, if it `agrees` with its original; else `unconverted()`, with a note.

    Parameters
    ----------
    name, spec, limits
        What messages call the model; its inputs and outputs; what a network may use.
    convert
        Makes the bytes of a network; several ways are tried in turn.
    agrees, unconverted
        Compare a network with its original, and return the original.
    rows
        Rows that the network must give the labels of the original.
    later
        Called with a spec and `rows=`, it converts the model. If given, nothing is converted now: the original is
        returned, which converts itself when a network is needed (`FunctionModel.to_network`).
    note
        What the caller should know about the model in any case.
    """
    if later is not None:
        model = unconverted()
        model.later, model.note = later, note
        return model
    problem = ""
    for way in convert if isinstance(convert, Sequence) else [convert]:
        try:
            network = OnnxModel.from_bytes(way(), name, spec, limits, note=note)
            problem = "" if agrees(network) else "the converted network answers differently"
            if rows is not None and not problem:
                problem = _other_labels(network, unconverted(), rows)
        except MisfitError:  # the spec must be corrected, and a Python model might read the answer otherwise
            raise
        except ModelError as error:
            problem = str(error).removeprefix(f"{name}: ")
        except Exception as error:  # other packages raise what they like
            problem = f"{type(error).__name__}: {first_line(error)}"
        if not problem:
            return network
    model = unconverted()
    reason = NOT_CONVERTED.format(name=name, problem=problem)
    model.note = f"{note}; {reason}" if note else reason
    return model


def _other_labels(network: OnnxModel, original: FunctionModel, rows: TableRows) -> str:
    """Return "", or in how many rows of a table a network decides otherwise than its original."""
    values = rows.values.astype(network.dtype)
    other = np.count_nonzero(network.predict(values) != original.predict(rows.values))
    return CONVERSION_DIFFERS.format(other=other, values_count=len(values)) if other else ""


def same_labels(network: OnnxModel, original: FunctionModel, spec: Spec) -> bool:
    """Return whether a network decides about random inputs as its original does."""
    inputs = random_inputs(spec.described, COMPARED_ROWS).astype(network.dtype)
    return np.array_equal(network.predict(inputs), original.predict(inputs))


def same_scores(
    network: OnnxModel, function: Callable[[Any], Any], spec: Spec, show: Callable[[Any], Any] | None = None
) -> bool:
    """Return whether a network and the function it was made from give the same scores, up to rounding.

    `show` makes the function's argument of feature values; by default the array that a network with one input gets.
    """
    show = show or flat_array(spec, network.name)
    numbers = spec.text is None

    def scored(count: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return rows, and the scores of the network and of the function for them."""
        rows = longest_first(spec, random_inputs(spec.described, count)).astype(network.dtype)
        answers = network.scores(rows).reshape(count, -1)
        rows = rows.astype(np.float64) if numbers else rows
        return rows, answers, np.asarray(function(show(rows))).reshape(count, -1)

    rows, answers, together = scored(COMPARED_TOGETHER)
    chosen = range(0, COMPARED_TOGETHER, 1 if numbers else COMPARED_TOGETHER // TEXTS_ALONE)
    alone = np.concatenate([np.asarray(function(show(rows[[row]]))).reshape(1, -1) for row in chosen])
    if not same_answers(answers, together) or not same_answers(answers[chosen], alone):
        return False
    _, answers, together = scored(LARGE if numbers else TEXTS_LARGE)
    return same_answers(answers, together)


def longest_first(spec: Spec, inputs: NDArray[Any]) -> NDArray[Any]:
    """Return texts by their lengths, as some modules want them; all else as it is."""
    if spec.text is None:
        return inputs
    return inputs[np.argsort(-np.count_nonzero(inputs, axis=1), kind="stable")]


def unpacked(
    path: Path, content: bytes, most: int, kind: str, wanted: Collection[str] | None = None
) -> dict[str, bytes]:
    """Return the members of an archive, all or those wanted, of at most `most` bytes together.

    The limit is on what the archive says of their sizes and on what they unpack to, measured while they are unpacked.
    `kind` is what messages call the file.
    """
    parts: dict[str, bytes] = {}
    left = most
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                # `is_dir` of zipfile fails for an empty name.
                if entry.filename.endswith("/") or (wanted is not None and entry.filename not in wanted):
                    continue
                if entry.filename in parts:
                    raise ModelError(MEMBER_TWICE.format(path=path, name=ascii(entry.filename)[1:-1][:80]))
                parts[entry.filename] = b""
                if entry.file_size <= left:
                    with archive.open(entry) as member:
                        parts[entry.filename] = member.read(left + 1)
                left -= max(len(parts[entry.filename]), entry.file_size)
                if left < 0:
                    raise ModelError(UNPACKED_TOO_LARGE.format(path=path, most=most))
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise ModelError(DAMAGED_ARCHIVE.format(path=path, kind=kind, error=first_line(error))) from None
    return parts


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporters' talk off the terminal: what matters of it ends in an exception."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
