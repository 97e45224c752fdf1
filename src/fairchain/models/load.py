"""Loading of models: files by their suffix, objects by their type, Python code by its name.

Models of other packages are recognised through `sys.modules`: a caller with a torch module has already imported torch,
and no other caller imports it. Files are untrusted; objects and `python:` names are the caller's own code.
"""

from __future__ import annotations

import os
import re
import sys
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fairchain.errors import ModelError
from fairchain.messages import FILE_NOT_FOUND, in_a_line
from fairchain.models.base import Model
from fairchain.models.onnx.file_checks import Limits, Network, check_bytes, read_network
from fairchain.models.onnx.session import OnnxModel
from fairchain.spec import Spec
from fairchain.system.user_code import user_code

if TYPE_CHECKING:
    from fairchain.tables import TableRows

PYTHON = "python:"
MODEL_FORMATS = (
    ".onnx (ONNX), .keras and .h5 (Keras), .nnet, .skops (scikit-learn), .json and .ubj (XGBoost), .txt (LightGBM), "
    ".cbm (CatBoost), .json (SOCRATES), a folder of save_pretrained (transformers)"
)
# Reasons why files with these suffixes are not read.
NOT_READ = {
    ".pkl .pickle .joblib .sav .dill .cloudpickle": (
        "a pickle can run any code when it is opened, so fairchain never opens one; load it in a Python module of "
        f"yours and give {PYTHON}module:name (in Python, the object), or save it with skops.io.dump (scikit-learn), in "
        "the booster's own format, or as ONNX"
    ),
    ".py .ipynb": (
        f"is code, not a model; for the object `model` in my_module.py give {PYTHON}my_module:model, and run fairchain "
        "in the folder of my_module.py"
    ),
    ".pt .pth .bin .ckpt": (
        "contains the weights of a torch module without the module; export the module to ONNX, or give "
        f"{PYTHON}package.module:name as the model and this file as its weights"
    ),
}
NOT_IN_MODULE = '{name}: unknown name "{attribute}" in {module_name}; name a function or a model there'
NOT_FITTED_ON_COLUMNS = (
    "cannot use an object of type {type} as a model, because it does not state the columns that it was fitted on; "
    "give model.predict if it takes arrays, or fairchain.as_frames(model.predict) if it takes frames"
)
NOT_A_MODEL = (
    "cannot use an object of type {type} as a model; give a file ({read}), a model of torch, scikit-learn, XGBoost, "
    "LightGBM, CatBoost or Keras, or a function of an array or, through fairchain.as_frames, of a frame"
)
URL_REFUSED = (
    "{url}: a file cannot name a service, because its author would decide where your data are sent; give the "
    "address yourself: --model (model=... in Python)"
)
PYTHON_REFUSED = (
    "{name}: a spec file cannot name Python code; --model {name} on the command line would import and execute that "
    "code with your rights, so give it only if you trust it"
)
NAME_FILE = "give the file of a model, for example model.onnx"
NAME_CODE = "name an object in Python code as python:{path}"
NAMES_NO_MODEL = "{model}: found a {type}; name a function or a model there"
LOADING_FAILED = "failed while it was loaded with"
CLASS_IS_NOT_A_MODEL = "{qualname}: is a class, not a model; give an instance of it, or its weights"


def load_model(
    source: Any,
    spec: Spec,
    limits: Limits | None = None,
    *,
    allow_python: bool = False,
    weights: str | Path | None = None,
    rows: TableRows | None = None,
    network: bool = False,
) -> Model:
    """Load a model of any kind, so that it can be evaluated.

    Parameters
    ----------
    source
        The model: the path of a file or folder, the name of a Python object (`"python:package.module:name"`), the
        address of a service, or an object. Files can be `.onnx`, `.keras`, `.h5` (Keras), `.nnet`, `.skops`
        (scikit-learn), `.json` (SOCRATES or XGBoost), `.ubj` (XGBoost), `.txt` (LightGBM) or `.cbm` (CatBoost). A
        folder can be one that `save_pretrained` of transformers wrote. Objects can be ONNX bytes or a `ModelProto`.
        They can also be models of torch, scikit-learn, XGBoost, LightGBM, CatBoost, Keras or transformers, or a
        `Service`. Further objects are a function of an array, a function of a frame that is wrapped with `as_frames`,
        and a model that was loaded before.
    spec
        The spec. It states the inputs, and the meaning of the output if the model does not state it.
    limits
        Limits for an untrusted file.
    allow_python
        Whether `python:` names may be imported, which runs code, and whether services may be called. A `python:` name
        in a spec file is never imported.
    weights
        A torch state dict for the module `source`. `source` may also be the `python:` name of a torch module, or of a
        function that returns a torch module when called without arguments.
    rows
        The rows of the table that the model will evaluate, if there is a table. With `rows`, Python code is tested on
        some of these rows, evaluates each distinct row once, and receives the cells of the original frame. With `rows`,
        a model of another package, for example scikit-learn, Keras or torch, is not converted to ONNX. The method
        `to_network` of the loaded model converts it.
    network
        Convert the model to ONNX if that is possible, even if `rows` are given.

    Raises
    ------
    ModelError
        If the model cannot be loaded. The message states what was found and what to pass instead.

    Notes
    -----
    A function of an array receives a new array of doubles of shape (rows, network inputs). The columns contain the
    features as the spec encodes them for a network: codes or indices of categories, one-hot columns, scaled numbers.
    For each row, the function returns a label, a score, or a score for each label.
    """
    if isinstance(source, OnnxModel) and weights is None:
        source.must_fit(spec)
        return source
    direct = rows is not None and not network
    path = Path(os.fspath(source)) if is_path(source) else None
    if path is not None and weights is not None:
        raise ModelError(f"{path}: weights belong to a torch module; name it with {PYTHON}package.module:name")
    if path is not None and path.suffix.lower() == ".keras":
        from fairchain.models.adapters.from_keras import from_keras_file

        return from_keras_file(path, spec, limits)
    source = read_model(source, limits, spec, allow_python=allow_python)
    # Models of other packages run while they are read; their exceptions are handled there, except attempts to exit.
    with user_code(_name(source), LOADING_FAILED, exits_only=True):
        if weights is not None:
            source = _with_weights(source, weights, limits)
        try:
            return _from_object(source, spec, limits, rows, direct=direct)
        except ModelError as error:
            if path is None or str(error).startswith(str(path)):
                raise
            raise type(error)(f"{path}: {error}") from None


def read_model(
    source: Any, limits: Limits | None = None, spec: Spec | None = None, *, allow_python: bool = False
) -> Any:
    """Read a model that is given by a path, an address or a name, once; an object is returned unchanged.

    Returns a checked `Network`, an object that `load_model` takes, or, without a spec, the path of a file whose network
    depends on the features of a spec. Anything that cannot be a model for any spec is refused.
    """
    if is_path(source):
        if spec is None and not Path(source).exists():
            code = re.fullmatch(r"[\w.]+:[\w.]+", str(source)) is not None
            remedy = NAME_CODE.format(path=source) if code else NAME_FILE
            raise ModelError(FILE_NOT_FOUND.format(path=source, remedy=remedy))
        return _read_file(Path(os.fspath(source)), limits or Limits(), spec)
    if is_url(source):
        if not allow_python:
            raise ModelError(URL_REFUSED.format(url=in_a_line(source)[:200]))
        from fairchain.models.adapters.from_service import Service

        return Service(source)
    if isinstance(source, str | os.PathLike):
        name = str(os.fspath(source))
        if not allow_python:
            raise ModelError(PYTHON_REFUSED.format(name=name))
        source = import_named(name)
        if isinstance(source, str | os.PathLike):
            raise ModelError(NAMES_NO_MODEL.format(model=name, type=type(source).__name__))
    with user_code(_name(source), LOADING_FAILED, exits_only=True):
        if getattr(getattr(source, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto":
            source = source.SerializeToString(deterministic=True)
        if isinstance(source, bytes | bytearray | memoryview):
            return check_bytes(Path("ONNX network in memory"), bytes(source), limits or Limits())
        from fairchain.models.adapters.from_sklearn import is_estimator
        from fairchain.models.adapters.from_transformers import is_transformer
        from fairchain.models.frames import FrameModel

        known = isinstance(source, Network | FrameModel) or is_transformer(source) or is_estimator(source)
        if not known and not callable(source) and not hasattr(source, "predict"):
            raise ModelError(NOT_A_MODEL.format(type=type(source).__name__, read=MODEL_FORMATS))
    return source


def is_path(source: Any) -> bool:
    """Return whether a model is given by the path of a file or folder, not by a URL or the name of Python code."""
    named = isinstance(source, str | os.PathLike)
    return named and not is_url(source) and not str(os.fspath(source)).startswith(PYTHON)


def is_url(source: Any) -> bool:
    """Return whether a model is given by the address of a service."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def to_onnx(model: Any, spec: Spec, limits: Limits | None = None) -> bytes:
    """Convert a model to an ONNX network, so that it can be saved, verified as a file, and certified.

    Parameters
    ----------
    model
        A model as for `load_model`, or a loaded model.
    spec
        The spec that the saved network will be verified with.
    limits
        Limits for an untrusted file.

    Raises
    ------
    ModelError
        If the model cannot be converted. The message states the reason.

    Examples
    --------
    >>> from fairchain import example, load_spec
    >>> spec = load_spec(example("census"))
    >>> to_onnx(spec.model.path, spec) == Path(spec.model.path).read_bytes()
    True
    """
    return load_model(model, spec, limits).to_network().content


def _read_file(path: Path, limits: Limits, spec: Spec | None) -> Any:
    """Return the content of a file: a checked network or an object; the path if a spec is needed and none is given."""
    if path.name.startswith(PYTHON):
        raise ModelError(PYTHON_REFUSED.format(name=path.name))
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return read_network(path, limits)
    from fairchain.models.adapters.from_transformers import is_folder, read_folder
    from fairchain.models.adapters.model_files import holds_object, read_object

    found: Any
    if is_folder(path):
        found = read_folder(path)
    elif holds_object(path):
        found = read_object(path, limits)
    elif suffix == ".keras":
        from fairchain.models.adapters.from_keras import read_keras_file

        found = read_keras_file(path, limits)
    elif suffix == ".json":
        from fairchain.models.adapters.from_socrates import socrates_network

        found = socrates_network(path, limits, spec)
    elif suffix in (".h5", ".hdf5"):
        from fairchain.models.adapters.from_h5 import h5_network

        found = h5_network(path, limits, spec)
    elif suffix == ".nnet":
        from fairchain.models.adapters.from_nnet import nnet_network

        found = path if spec is None else nnet_network(path, limits, spec)
    else:
        other = (
            f'a file that ends in "{suffix}" is not read; give one of {MODEL_FORMATS}, or export the network to ONNX'
        )
        why = next((reason for suffixes, reason in NOT_READ.items() if suffix in suffixes.split()), other)
        raise ModelError(f"{path}: {why}")
    return check_bytes(path, found, limits) if isinstance(found, bytes) else found


def import_named(name: str) -> Any:
    """Import the object named by `python:package.module:name`, also from the working directory."""
    module_name, colon, attribute = name.removeprefix(PYTHON).partition(":")
    if not module_name or not colon or not attribute:
        raise ModelError(f"{name}: write {PYTHON}package.module:name, for example {PYTHON}my_model:predict")
    # As for `python -m`: it stays, because the code may import its neighbours later.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    absent: ModuleNotFoundError | None = None
    with user_code(name, "importing it failed with"):
        try:
            found: Any = import_module(module_name)
        except ModuleNotFoundError as error:
            absent = error
        for step in attribute.split(".") if absent is None else ():
            found = getattr(found, step, None)
    if absent is not None:
        raise ModelError(
            f"{name}: module {absent.name} not found; run fairchain in its folder, or install it"
        ) from absent
    if found is None:
        raise ModelError(NOT_IN_MODULE.format(name=name, attribute=attribute, module_name=module_name))
    return found


def _name(source: Any) -> str:
    # Not by getattr: an object may run its own code when an attribute is read.
    return f"function {source.__qualname__}" if type(source) is FunctionType else type(source).__name__


def _with_weights(source: Any, weights: str | Path, limits: Limits | None) -> Any:
    """Return a copy of the module, or the result of a class or function, with these weights loaded."""
    from fairchain.models.adapters.from_torch import is_module, load_state

    if is_module(source):
        return load_state(deepcopy(source), weights, limits)
    name = getattr(source, "__qualname__", type(source).__name__)
    with user_code(name, "must return the module of the weights when it is called without arguments:"):
        made = source() if callable(source) else None
    if not is_module(made):
        raise ModelError(f"{name}: is not a torch module, so it takes no weights; leave --weights (weights=...) out")
    return load_state(made, weights, limits)


def _from_object(source: Any, spec: Spec, limits: Limits | None, rows: TableRows | None, *, direct: bool) -> Model:
    """Load an object; with `direct` it is evaluated in Python, and converted only when a network is needed."""
    if all(hasattr(type(source), part) for part in ("predict", "must_fit", "to_network")):
        loaded: Model = source
        loaded.must_fit(spec)
        later = None if direct else getattr(loaded, "later", None)
        return loaded if later is None else later(spec, rows=rows)
    if isinstance(source, Network):
        return OnnxModel.from_network(source, spec, limits)
    from fairchain.models.adapters.from_function import from_function
    from fairchain.models.adapters.from_keras import from_keras, is_keras
    from fairchain.models.adapters.from_sklearn import from_sklearn, is_estimator
    from fairchain.models.adapters.from_torch import from_torch, is_module
    from fairchain.models.adapters.from_transformers import from_transformers, is_transformer
    from fairchain.models.fitted import BOOSTING, fitted_of, is_predictor, package_of
    from fairchain.models.frames import FrameModel

    if is_transformer(source):  # which may be a torch module too
        return from_transformers(source, spec, rows, direct=direct or rows is None)
    if is_keras(source):  # which may also be torch modules
        return from_keras(source, spec, limits, rows=rows, direct=direct)
    if is_module(source):
        return from_torch(source, spec, limits, rows=rows, direct=direct)
    if package_of(source) in BOOSTING:  # some of which are also estimators of scikit-learn
        from fairchain.models.adapters.from_boosting import from_boosting

        return from_boosting(source, spec, limits, rows=rows, direct=direct)
    if is_estimator(source) or is_predictor(source):
        return from_sklearn(source, spec, limits, rows=rows, direct=direct)
    if isinstance(source, type):
        raise ModelError(CLASS_IS_NOT_A_MODEL.format(qualname=source.__qualname__))
    if not isinstance(source, FrameModel) and not callable(source):
        raise ModelError(NOT_FITTED_ON_COLUMNS.format(type=type(source).__name__))
    if "fairchain.models.adapters.from_service" in sys.modules:
        from fairchain.models.adapters.from_service import Service, from_service

        if isinstance(source, Service):
            return from_service(source, spec, rows)
    # A method of a model that was fitted on a frame also takes frames.
    framed = not isinstance(source, FrameModel) and fitted_of(source).frames
    return from_function(FrameModel(source) if framed else source, spec, rows)
