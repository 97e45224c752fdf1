"""From a model in memory to a network: converted if that can be done and the two agree, else asked in Python.

A converted network is fast, can be hashed and saved, and so can be certified. Where conversion fails, the verdict
is about the model all the same, and a note says why there is no certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.from_function import FunctionModel, flat_array
from fairchain.models.base import MisfitError, first_line, random_inputs, same_answers
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec

# Rows on which a network must score as its original does, one by one as well as together; of texts fewer one by one,
# since a framework takes its time for each of their steps. A larger batch shows whether the original treats that alike.
COMPARED, TEXTS_ALONE = 64, 16
LARGE, TEXTS_LARGE = 8192, 128


def converted_or_asked(
    name: str,
    spec: Spec,
    limits: Limits | None,
    *,
    convert: Callable[[], bytes],
    agrees: Callable[[OnnxModel], bool],
    ask: Callable[[], FunctionModel],
) -> OnnxModel | FunctionModel:
    """The network that `convert` makes, if it `agrees` with its original; else what `ask` makes, with a note."""
    try:
        network = OnnxModel.from_bytes(convert(), name, spec, limits)
        problem = "" if agrees(network) else "the converted network answers differently"
    except MisfitError:  # the spec is to be mended, and asking in Python might read the answer otherwise
        raise
    except ModelError as error:
        problem = str(error).removeprefix(f"{name}: ")
    except Exception as error:  # other packages raise what they like
        problem = f"{type(error).__name__}: {first_line(error)}"
    if not problem:
        return network
    asked = ask()
    asked.note = f"{name} is asked in Python, without a certificate: it could not be converted to ONNX ({problem})"
    return asked


def same_scores(
    network: OnnxModel, function: Callable[[Any], Any], spec: Spec, show: Callable[[Any], Any] | None = None
) -> bool:
    """Whether a network and the function it was made from give the same scores, but for rounding.

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

    rows, answers, together = scored(COMPARED)
    chosen = range(0, COMPARED, 1 if numbers else COMPARED // TEXTS_ALONE)
    alone = np.concatenate([np.asarray(function(show(rows[[row]]))).reshape(1, -1) for row in chosen])
    if not same_answers(answers, together) or not same_answers(answers[chosen], alone):
        return False
    _, answers, together = scored(LARGE if numbers else TEXTS_LARGE)
    return same_answers(answers, together)


def longest_first(spec: Spec, people: NDArray[Any]) -> NDArray[Any]:
    """Texts by their lengths, as some modules want them; all else as it is."""
    if spec.text is None:
        return people
    return people[np.argsort(-np.count_nonzero(people, axis=1), kind="stable")]
