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
from fairchain.model.adapters.from_function import FunctionModel, flat_array
from fairchain.model.asking import MisfitError, first_line, random_people, same_answers
from fairchain.model.onnx_model import OnnxModel
from fairchain.model.untrusted import Limits
from fairchain.spec import Spec

# Rows on which a network must score as its original does, one by one as well as together; of texts fewer one by one,
# since a framework takes its time for each of their steps.
COMPARED, TEXTS_ALONE = 64, 16


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
    people = longest_first(spec, random_people(spec.described, COMPARED)).astype(network.dtype)
    answers = network.scores(people).reshape(COMPARED, -1)
    people = people.astype(np.float64) if spec.text is None else people
    together = np.asarray(function(show(people))).reshape(COMPARED, -1)
    rows = range(0, COMPARED, 1 if spec.text is None else COMPARED // TEXTS_ALONE)
    alone = np.concatenate([np.asarray(function(show(people[[row]]))).reshape(1, -1) for row in rows])
    pairs = [(answers, together), (answers[rows], alone)]
    return all(one.shape == other.shape and same_answers(one, other) for one, other in pairs)


def longest_first(spec: Spec, people: NDArray[Any]) -> NDArray[Any]:
    """Texts by their lengths, as some modules want them; all else as it is."""
    if spec.text is None:
        return people
    return people[np.argsort(-np.count_nonzero(people, axis=1), kind="stable")]
