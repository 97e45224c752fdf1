"""Common steps of adapters: a model is evaluated in Python, or converted to a network if the two agree; archives.

On the rows of a table a model is called in Python, because converting takes longer than its answers. A converted
network is faster for many drawn inputs, can be hashed and saved, and therefore certified. If conversion fails, the
verdict is still about the model, and a note states why there is no certificate.
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
from fairchain.models.base import MisfitError, random_inputs, same_answers
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec
from fairchain.statements import WITHOUT_CERTIFICATE
from fairchain.system.user_code import first_line
from fairchain.tables import TableRows

# Random inputs for which a network must decide exactly like its original.
COMPARED_ROWS = 4096
# Rows on which a network must score like its original, singly and together; fewer texts singly, because frameworks are
# slow for each of their steps. A larger batch shows whether the original is independent of the batch.
COMPARED_TOGETHER, TEXTS_ALONE = 64, 16
LARGE, TEXTS_LARGE = 8192, 128
CONVERSION_DIFFERS = "the converted network decides differently for {other:,} of {values_count:,} rows"
UNPACKED_TOO_LARGE = "{path}: unpacks to more than the limit of {most} bytes"
MEMBER_TWICE = "{path}: contains {name} twice; save the model again"
DAMAGED_ARCHIVE = "{path}: not {kind}, or a damaged one ({error}); save the model again"
TO_CERTIFY = (
    "To certify its decisions, write them into a column beside the groups, and check that table: prediction=... "
    "(--prediction)"
)
TO_CERTIFY_TEXTS = (
    "To certify its decisions, write them into a table with the group of each text, and check that table without the "
    "texts: prediction=... (--prediction), protected=... (--protected)"
)
NOT_CONVERTED = (
    f"{{name}} is evaluated in Python, {WITHOUT_CERTIFICATE}: it could not be converted to ONNX ({{problem}}). "
    "{remedy}"
)


def converted_or_original(
    name: str,
    spec: Spec,
    limits: Limits | None,
    convert: Sequence[Callable[[], bytes]],
    agrees: Callable[[OnnxModel], bool],
    unconverted: Callable[[], FunctionModel],
    *,
    rows: TableRows | None,
    later: Callable[..., OnnxModel | FunctionModel] | None,
    note: str = "",
) -> OnnxModel | FunctionModel:
    """Return the network from `convert`, if it `agrees` with its original; otherwise `unconverted()`, with a note.

    The functions of `convert`, which return the bytes of a network, are tried in order. For `rows` the network must
    give the labels of the original. `later`, called with a spec and `rows=`, converts the model: if it is given,
    nothing is converted now, and the original converts itself when a network is needed (`FunctionModel.to_network`).
    `note` is a note for the caller in any case.
    """
    if later is not None:
        model = unconverted()
        model.later, model.note = later, note
        return model
    problem = ""
    for attempt in convert:
        try:
            network = OnnxModel.from_bytes(attempt(), name, spec, limits, note=note)
            problem = "" if agrees(network) else "the converted network answers differently"
            if rows is not None and not problem:
                labels = network.predict(rows.values.astype(network.dtype))
                other = np.count_nonzero(labels != unconverted().predict(rows.values))
                problem = CONVERSION_DIFFERS.format(other=other, values_count=len(labels)) if other else ""
        except MisfitError:  # the spec must be corrected, and a Python model might read the answer differently
            raise
        except ModelError as error:
            problem = str(error).removeprefix(f"{name}: ")
        except Exception as error:  # other packages can raise any exception
            problem = f"{type(error).__name__}: {first_line(error)}"
        if not problem:
            return network
    model = unconverted()
    remedy = TO_CERTIFY if spec.text is None else TO_CERTIFY_TEXTS
    reason = NOT_CONVERTED.format(name=name, problem=problem.rstrip("."), remedy=remedy)
    model.note = f"{note}; {reason}" if note else reason
    return model


def same_labels(original: FunctionModel, spec: Spec, network: OnnxModel) -> bool:
    """Return whether a network decides about random inputs as its original does."""
    inputs = random_inputs(spec.described, COMPARED_ROWS).astype(network.dtype)
    return np.array_equal(network.predict(inputs), original.predict(inputs))


def same_scores(function: Callable[[Any], Any], spec: Spec, show: Callable[[Any], Any], network: OnnxModel) -> bool:
    """Return whether a network and its original function of `show(values)` give the same scores, up to rounding."""
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
    """Return texts sorted by decreasing length, as some modules require; other inputs unchanged."""
    return inputs if spec.text is None else inputs[np.argsort(-np.count_nonzero(inputs, axis=1), kind="stable")]


def unpacked(
    path: Path, content: bytes, most: int, kind: str, wanted: Collection[str] | None = None
) -> dict[str, bytes]:
    """Return the members of an archive, all or the requested ones, of at most `most` bytes together.

    The limit applies to the sizes that the archive states and to the actual sizes, measured while unpacking. `kind` is
    the name of the file's type in messages.
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
    """Suppress the output of exporters; their relevant problems raise exceptions."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
