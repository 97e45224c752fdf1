"""Calls of a torch module: with a row of numbers for each input, several of them by name, a series, or texts.

The inputs of a module cannot be read from it, so it is called: the first call that gives an answer for each row is
used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.converting import longest_first
from fairchain.models.adapters.shown_inputs import flat_array
from fairchain.models.base import random_inputs
from fairchain.models.onnx.feature_encoding import widths
from fairchain.models.onnx.inputs import plan_feed
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.models.onnx.text_inputs import TextFeed, plan_text
from fairchain.spec import CategoryFeature, Feature, Spec, TextFeature
from fairchain.text import lexicon_of

Arrays = tuple[NDArray[Any], ...]
# Largest number of calls with several arguments that are tried.
MOST_WAYS = 64
FORWARD_WITHOUT_LENGTHS = (
    '{name}: forward takes "{parameter_name}", which is neither the lengths of texts nor a mask; name it: lengths = '
    '"..." or mask = "..." in the [[feature]]'
)
PARAMETERS_DO_NOT_FIT = (
    "{name}: forward takes {value}, and the features fill {filled}; name the parameter of each [[feature]]: input = "
    '"..."'
)


@dataclass(frozen=True)
class Call:
    """One way to call a module: `show` converts feature values to its arguments.

    `names` are those of the inputs of the exported network, and `axes` has for each the name of every axis with a free
    size.
    """

    show: Callable[[NDArray[Any]], Arrays]
    names: tuple[str, ...]
    axes: dict[str, dict[int, str]]


def find_call(
    module: Any, series: tuple[int, bool] | None, spec: Spec, name: str, evaluate: Callable[[Arrays], NDArray[Any]]
) -> Call:
    """Return the call for which a module answers with one row for each row; the first one, if none does.

    `series` has the number of values that its first recurrent layer reads at each step, and whether rows come first
    there.
    """
    calls = list(
        text_calls(spec.text, _arguments(module, spec.text, name), name)
        if spec.text is not None
        else _number_calls(module, spec, series, name)
    )
    if len(calls) == 1:
        return calls[0]
    rows = 3 if spec.text is None or spec.text.length != 3 else 4  # so that steps are not mistaken for rows
    inputs = longest_first(spec, random_inputs(spec.described, rows))
    for call in calls:
        try:
            answer = evaluate(call.show(inputs))
        except Exception:  # a module that is called with wrong arguments can raise any exception
            continue
        if answer.ndim and len(answer) == rows:
            return call
    return calls[0]


def _number_calls(module: Any, spec: Spec, series: tuple[int, bool] | None, name: str) -> Iterator[Call]:
    """Yield a call with one row for each input; if there is a recurrent layer, also one with its steps."""
    needed = forward_parameters(module)
    if len(needed) > 1 or any(feature.input is not None for feature in spec.features if feature.model_input):
        yield from _named_calls(needed, spec, name)
        return
    width = sum(widths(spec.features))
    flat = flat_array(spec, name)

    def steps(shape: tuple[int, int], time_first: bool, values: NDArray[Any]) -> Arrays:
        shown = flat(values).reshape(len(values), *shape)
        return (np.ascontiguousarray(shown.swapaxes(0, 1)) if time_first else shown,)

    yield Call(lambda values: (flat(values),), ("input",), {"input": {0: "batch"}})
    if series is not None and width % series[0] == 0:
        size, rows_first = series
        show = partial(steps, (width // size, size), not rows_first)
        yield Call(show, ("input",), {"input": {0 if rows_first else 1: "batch"}})


def forward_parameters(module: Any) -> list[str]:
    """Return the names of the arguments that `forward` needs, in order; empty if it does not state them."""
    schema = getattr(module.forward, "schema", None)  # for a scripted module
    if schema is not None:
        return [each.name for each in schema.arguments[1:] if not each.has_default_value()]
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY)
    ]


def _named_calls(needed: Sequence[str], spec: Spec, name: str) -> Iterator[Call]:
    """Yield calls with an argument for each parameter of `forward`, filled by the features that name it.

    If all features are categories, they may be indices of an embedding: integers, with or without an axis.
    """
    filled: dict[str, list[Feature]] = {}
    for feature in spec.features:
        if feature.model_input:
            filled.setdefault(feature.input or feature.name, []).append(feature)
    if set(filled) != set(needed):
        taken = ", ".join(needed) or "unnamed arguments"
        raise ModelError(PARAMETERS_DO_NOT_FIT.format(name=name, value=taken, filled=", ".join(filled)))
    kinds = []
    for parameter in needed:
        features = filled[parameter]
        width = sum(widths(features))
        ways: list[tuple[str, tuple[int | str | None, ...]]] = [("tensor(double)", ("N", width))]
        if all(isinstance(feature, CategoryFeature) and not feature.one_hot for feature in features):
            ways = [("tensor(int64)", ("N", width)), *ways]
            ways = [("tensor(int64)", ("N",)), *ways] if width == 1 else ways
        kinds.append(ways)
    for chosen in islice(product(*kinds), MOST_WAYS):
        yield call_by_name(name, spec, [TensorInfo(each, *kind) for each, kind in zip(needed, chosen, strict=True)])


def call_by_name(name: str, spec: Spec, nodes: Sequence[TensorInfo]) -> Call:
    """Return the call in which each of these inputs is filled by the features that name it."""
    feed, names = plan_feed(Path(name), spec.features, nodes), tuple(node.name for node in nodes)

    def show(values: NDArray[Any]) -> Arrays:
        shown = feed(values)
        return tuple(shown[each] for each in names)

    return Call(show, names, {each: {0: "batch"} for each in names})


def text_calls(text: TextFeature, roles: tuple[str, ...], name: str) -> list[Call]:
    """Return calls with words as vectors or numbers, with rows or steps first.

    `roles` are `input` and then `lengths` or `mask`: the names of the network's inputs unless the spec states others.
    """
    lexicon = lexicon_of(text)
    names = tuple(getattr(text, role) or role for role in roles)
    words = TensorInfo("input", "tensor(int64)", ("N", "T"))
    if lexicon.table is not None:
        words = TensorInfo("input", "tensor(float)", ("N", "T", lexicon.width))
    plain = replace(text, input=None, lengths=None, mask=None)
    calls = []
    for mask in ("tensor(bool)", "tensor(float)") if "mask" in roles else ("",):
        sides = {
            "lengths": TensorInfo("lengths", "tensor(int64)", ("N",)),
            "mask": TensorInfo("mask", mask, ("N", "T")),
        }
        for feed in plan_text(Path(name), plain, lexicon, [words, *(sides[role] for role in roles[1:])]):
            rows, time = (1, 0) if feed.time_first else (0, 1)
            both = {rows: "batch", time: "time"}
            axes = {"input": both, "lengths": {0: "batch"}, "mask": both}
            free = {name: axes[role] for name, role in zip(names, roles, strict=True)}
            calls.append(Call(partial(_in_order, feed, roles), names, free))
    return calls


def _in_order(feed: TextFeed, roles: tuple[str, ...], values: NDArray[Any]) -> Arrays:
    shown = feed(values)
    # Copies: the feed reuses its memory, and a module may keep its inputs.
    return tuple(shown[role].copy() for role in roles)


def _arguments(module: Any, text: TextFeature, name: str) -> tuple[str, ...]:
    """Return the module's arguments, in the order of its parameters: words first, then lengths or a mask by name."""
    names = ["input"]
    for parameter in list(inspect.signature(module.forward).parameters.values())[1:]:
        word = parameter.name.lower()
        side = "lengths" if parameter.name == text.lengths or "len" in word else None
        side = "mask" if parameter.name == text.mask or "mask" in word else side
        if side is not None and side not in names:
            names.append(side)
        elif parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            raise ModelError(FORWARD_WITHOUT_LENGTHS.format(name=name, parameter_name=parameter.name))
        else:
            break
    return tuple(names)
