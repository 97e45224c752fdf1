"""torch modules: exported to ONNX in inference mode and compared with the module; state dicts without pickled code.

torch is not imported to recognise a module, because the caller has already imported it. The inputs of a module cannot
be read from it, so it is called: with a row of numbers for each input, several of them by name, a series, or texts. The
first call that gives an answer for each row is used.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.converting import converted_or_original, longest_first, quiet, same_scores, unpacked
from fairchain.models.adapters.from_function import FunctionModel, flat_array
from fairchain.models.adapters.native_reader import reading
from fairchain.models.adapters.onnx_graph import OPSET, plain_bytes
from fairchain.models.base import random_inputs
from fairchain.models.onnx.feature_encoding import widths
from fairchain.models.onnx.file_checks import Limits, read_file
from fairchain.models.onnx.inputs import plan_feed
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.models.onnx.session import OnnxModel
from fairchain.models.onnx.text_inputs import TextFeed, plan_text
from fairchain.spec import CategoryFeature, Feature, Spec, TextFeature
from fairchain.tables import TableRows
from fairchain.text import lexicon_of

# Older versions run code from some files despite weights_only (CVE-2025-32434, CVE-2026-24747).
SAFE_TORCH = (2, 10)
NOT_A_STATE = (
    "{path}: not a state dict that torch reads without running code ({reason}); save it with "
    "torch.save(module.state_dict(), path)"
)
TENSOR_TYPE_DIFFERS = (
    "{path}: tensor {name} is {dtype} and the module's is {wanted}; save the state of a module of the same type"
)
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


def is_module(source: object) -> bool:
    """Return whether this is a torch module; False if torch was never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(source, torch.nn.Module)


def from_torch(
    module: Any, spec: Spec, limits: Limits | None = None, *, rows: TableRows | None = None, direct: bool = False
) -> OnnxModel | FunctionModel:
    """Return a model from an `nn.Module` that takes one row of network inputs for each individual: (batch, inputs).

    If `forward` takes several arguments, or the spec names inputs, each parameter is filled by the features that name
    it. A module with a recurrent layer may take a series, (batch, steps, inputs of a step), and for texts it takes
    their words and, if it has parameters for them, lengths or a mask. It is exported to ONNX in inference mode; its own
    mode is not changed. Scripted modules are supported; a compiled module is unwrapped. A module that cannot be
    exported is evaluated in Python.
    """
    torch, module = sys.modules["torch"], inner_module(module)
    name = f"torch module {getattr(module, 'original_name', type(module).__name__)}"

    def function(arrays: Arrays) -> NDArray[Any]:
        with _inference(module), torch.no_grad():
            answer = module(*_tensors(module, arrays))
        if not isinstance(answer, torch.Tensor):
            kind = type(answer).__name__
            raise TypeError(f"the module returns a {kind}; wrap it so that it returns its scores alone")
        return answer.cpu().numpy()  # type: ignore[no-any-return]  # a tensor's numbers

    with _one_thread():
        call = _find_call(module, spec, name, function)

    def convert() -> bytes:
        example = call.show(longest_first(spec, random_inputs(spec.described, 3)))
        function(example)  # a problem of the module itself, which no exporter needs to report
        return export_module(module, call, example)

    def agrees(network: OnnxModel) -> bool:
        with _one_thread():
            return same_scores(function, spec, call.show, network)

    def original() -> FunctionModel:
        return FunctionModel(function, spec, name, show=call.show, output="output", rows=rows, local=True)

    later = partial(from_torch, module, limits=limits) if direct else None
    return converted_or_original(name, spec, limits, [convert], agrees, original, rows=rows, later=later)


def inner_module(module: Any) -> Any:
    """Return the module that torch.compile or DataParallel wraps; a compiled one has no export."""
    module = getattr(module, "_orig_mod", module)
    return module.module if isinstance(module, sys.modules["torch"].nn.DataParallel) else module


def load_state(module: Any, path: str | Path, limits: Limits | None = None) -> Any:
    """Load a state dict from a file into a module, and return the module; refuse tensors that are not the module's.

    The file is read with `weights_only=True`, so that it cannot run code.
    """
    path, limits = Path(path), limits or Limits()
    torch = import_module("torch")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < SAFE_TORCH:
        raise ModelError(f"{path}: with torch {torch.__version__} such a file can run code; update torch")
    content = read_file(path, limits.file_bytes, "the file of a state dict")
    with reading(lambda reason: ModelError(NOT_A_STATE.format(path=path, reason=reason))):
        if not content.startswith(b"PK"):
            raise ValueError("not an archive of torch 1.6 or later")
        # The unpacked size of its members is limited first: torch allocates it without a limit.
        unpacked(path, content, limits.file_bytes, "a state dict")
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelError(f"{path}: contains more than tensors; save it with torch.save(module.state_dict(), path)")
    own = module.state_dict()
    for name, value in state.items():
        wanted = own[name].dtype if isinstance(own.get(name), torch.Tensor) else value.dtype
        # torch casts to the module's type; additional digits are rounded, which gives the same network.
        if value.dtype != wanted and not (value.dtype.is_floating_point and wanted.is_floating_point):
            types = {"dtype": str(value.dtype)[len("torch.") :], "wanted": str(wanted)[len("torch.") :]}
            raise ModelError(TENSOR_TYPE_DIFFERS.format(path=path, name=ascii(name)[1:-1][:80], **types))
    try:
        module.load_state_dict(state)
    except Exception as error:
        what = " ".join(str(error).split())[:300]
        raise ModelError(f"{path}: is not the state of {type(module).__name__}: {what}") from None
    return module


def export_module(module: Any, call: Call, arguments: Arrays) -> bytes:
    """Return the module in inference mode as ONNX bytes, from its inputs to `output`; `arguments` are an example.

    Tracing is a hundred times faster than the newer exporter and keeps a recurrent layer as one operator, but it does
    not support every operator.
    """
    from onnx import load_model_from_string

    torch = sys.modules["torch"]
    names: dict[str, Any] = {"input_names": list(call.names), "output_names": ["output"]}
    with _inference(module), quiet():
        example, buffer = _tensors(module, arguments), io.BytesIO()
        try:
            axes = {**call.axes, "output": {0: "batch"}}
            torch.onnx.export(module, example, buffer, dynamo=False, opset_version=OPSET, dynamic_axes=axes, **names)
            return plain_bytes(load_model_from_string(buffer.getvalue()))
        except Exception:
            free = {name: torch.export.Dim(name) for axes in call.axes.values() for name in axes.values()}
            shapes = tuple({axis: free[of] for axis, of in call.axes[name].items()} for name in call.names)
            more = {"external_data": False, "verbose": False, "dynamic_shapes": shapes, **names}
            return plain_bytes(torch.onnx.export(module, example, dynamo=True, **more).model_proto)


def with_arguments(model: Any) -> Any:
    """Return a module that takes the inputs of a Keras model, which are a list, as arguments."""
    torch: Any = sys.modules["torch"]

    class WithArguments(torch.nn.Module):  # type: ignore[misc]  # of a package that is imported when it is used
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> Any:
            return self.model(list(inputs))

    return WithArguments()


def _tensors(module: Any, arrays: Arrays) -> tuple[Any, ...]:
    """Return the arguments of a module: real numbers in its own number type."""
    torch, parameters = sys.modules["torch"], list(module.parameters())
    dtype = next((value.dtype for value in parameters if value.is_floating_point()), torch.float32)
    device = next((value.device for value in parameters), None)
    return tuple(
        torch.as_tensor(array, dtype=dtype if array.dtype.kind == "f" else None, device=device) for array in arrays
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread temporarily: small calls take longer with more, up to a hundred times on a busy machine."""
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _inference(module: Any) -> Iterator[None]:
    """Use inference mode temporarily; each submodule gets its own mode back, because some may be frozen on purpose."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


# ---- Calls of a module ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One way to call a module: `show` converts feature values to its arguments.

    `names` are those of the inputs of the exported network, and `axes` has for each the name of every axis with a free
    size.
    """

    show: Callable[[NDArray[Any]], Arrays]
    names: tuple[str, ...]
    axes: dict[str, dict[int, str]]


def _find_call(module: Any, spec: Spec, name: str, evaluate: Callable[[Arrays], NDArray[Any]]) -> Call:
    """Return the call for which a module answers with one row for each row; the first one, if none does."""
    if spec.text is None:
        calls = list(_number_calls(module, spec, name))
    else:
        calls = text_calls(spec.text, _arguments(module, spec.text, name), name)
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


def _number_calls(module: Any, spec: Spec, name: str) -> Iterator[Call]:
    """Yield a call with one row for each input; if there is a recurrent layer, also one with its steps."""
    needed = forward_parameters(module)
    if len(needed) > 1 or any(feature.input is not None for feature in spec.features if feature.model_input):
        yield from _named_calls(needed, spec, name)
        return
    width, flat = sum(widths(spec.features)), flat_array(spec, name)
    yield Call(lambda values: (flat(values),), ("input",), {"input": {0: "batch"}})
    recurrent = [part for part in module.modules() if isinstance(part, sys.modules["torch"].nn.RNNBase)]
    if recurrent and width % recurrent[0].input_size == 0:
        size, rows_first = recurrent[0].input_size, recurrent[0].batch_first

        def steps(values: NDArray[Any]) -> Arrays:
            shown = flat(values).reshape(len(values), width // size, size)
            return (shown if rows_first else np.ascontiguousarray(shown.swapaxes(0, 1)),)

        yield Call(steps, ("input",), {"input": {0 if rows_first else 1: "batch"}})


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
