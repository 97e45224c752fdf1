"""torch modules: exported to ONNX in inference mode and compared with the module; state dicts without pickled code.

torch is not imported to recognise a module, because the caller has already imported it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.adapters.converting import converted_or_original, longest_first, quiet, same_scores, unpacked
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.onnx_graph import OPSET, plain_bytes
from fairchain.models.adapters.shown_inputs import row_values
from fairchain.models.adapters.torch_call import Arrays, Call, find_call
from fairchain.models.base import random_inputs
from fairchain.models.onnx.file_checks import Limits, read_file
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec
from fairchain.system.user_code import first_line
from fairchain.tables import TableRows

# Older versions run code from some files despite weights_only (CVE-2025-32434, CVE-2026-24747).
SAFE_TORCH = (2, 10)
TENSOR_TYPE_DIFFERS = (
    "{path}: tensor {name} is {dtype} and the module's is {wanted}; save the state of a module of the same type"
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
            raise TypeError(
                f"the module returns a {type(answer).__name__}; wrap it so that it returns its scores alone"
            )
        return answer.cpu().numpy()  # type: ignore[no-any-return]  # a tensor's numbers

    # The number of values that the first recurrent layer reads at each step, and whether rows come first there.
    recurrent = [part for part in module.modules() if isinstance(part, torch.nn.RNNBase)]
    series = (recurrent[0].input_size, recurrent[0].batch_first) if recurrent else None
    with _one_thread():
        call = find_call(module, series, spec, name, function)

    def convert() -> bytes:
        example = call.show(longest_first(spec, random_inputs(spec.described, 3)))
        function(example)  # a problem of the module itself, which no exporter needs to report
        return export_module(module, call, example)

    def agrees(network: OnnxModel) -> bool:
        with _one_thread():
            return same_scores(network, function, spec, call.show)

    return converted_or_original(
        name,
        spec,
        limits,
        convert=[convert],
        agrees=agrees,
        unconverted=lambda: FunctionModel(
            function, spec, name, show=call.show, output="output", rows=row_values(rows), local=True
        ),
        rows=rows,
        later=partial(from_torch, module, limits=limits) if direct else None,
    )


def inner_module(module: Any) -> Any:
    """Return the module that torch.compile or DataParallel wraps; a compiled one has no export."""
    module = getattr(module, "_orig_mod", module)
    return module.module if isinstance(module, sys.modules["torch"].nn.DataParallel) else module


def load_state(module: Any, path: str | Path, limits: Limits | None = None) -> Any:
    """Load a state dict from a file into a module, and return the module.

    The file is read with `weights_only=True`, so that it cannot run code.

    Raises
    ------
    ModelError
        If the file cannot be read as a state dict, or its tensors are not the module's.
    """
    path, limits = Path(path), limits or Limits()
    torch = import_module("torch")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < SAFE_TORCH:
        raise ModelError(f"{path}: with torch {torch.__version__} such a file can run code; update torch")
    content = read_file(path, limits.file_bytes, "the file of a state dict")
    try:
        if not content.startswith(b"PK"):
            raise ValueError("not an archive of torch 1.6 or later")
        # The unpacked size of its members is limited first: torch allocates it without a limit.
        unpacked(path, content, limits.file_bytes, "a state dict")
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except Exception as error:  # a damaged file can raise any exception
        raise ModelError(
            f"{path}: not a state dict that torch reads without running code ({first_line(error)}); "
            "save it with torch.save(module.state_dict(), path)"
        ) from None
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
