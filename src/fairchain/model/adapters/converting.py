"""From a model in memory to a network: converted if that can be done and the two agree, else asked in Python.

A converted network is fast, can be hashed and saved, and so can be certified. Where conversion fails, the verdict
is about the model all the same, and a note says why there is no certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.model.adapters.from_function import FunctionModel, flat_array
from fairchain.model.asking import MisfitError, first_line, random_people, same_answers
from fairchain.model.onnx_model import OnnxModel
from fairchain.model.untrusted import Limits
from fairchain.spec import Spec

# Rows on which a network must score as its original does, one by one as well as together.
COMPARED = 64


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


def same_scores(network: OnnxModel, function: Callable[[Any], Any], spec: Spec) -> bool:
    """Whether a network and the function it was made from give the same scores, but for rounding."""
    show = flat_array(spec, network.name)
    people = random_people(spec.features, COMPARED).astype(network.dtype)
    answers = network.scores(people).reshape(COMPARED, -1)
    inputs = show(people.astype(np.float64))
    together = np.asarray(function(inputs)).reshape(COMPARED, -1)
    alone = np.concatenate([np.asarray(function(inputs[row : row + 1])).reshape(1, -1) for row in range(COMPARED)])
    return all(other.shape == answers.shape and same_answers(answers, other) for other in (together, alone))
