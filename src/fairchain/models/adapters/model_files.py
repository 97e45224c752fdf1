"""Files of XGBoost, LightGBM, CatBoost and skops: checked here, then read by the package that wrote them.

No file runs code: none of these formats is a pickle, and for a skops file only types that skops trusts are loaded. The
packages read with native code, which may trust its input. So sizes are limited, the beginning must be that of the
format, and trees must be trees: every index inside its bounds, every node reached once. LightGBM gets the text that was
checked (`lightgbm_text`). UBJSON is converted to JSON in a separate process, and CatBoost runs only in one
(`catboost_process`): a crash or a hang there is an error message.
"""

from __future__ import annotations

import json
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import listed
from fairchain.models.adapters import native_reader
from fairchain.models.adapters.catboost_process import CatBoostFile
from fairchain.models.adapters.converting import quiet, unpacked
from fairchain.models.adapters.lightgbm_text import MOST_TREES, check_depth, checked_text, must_be_tree
from fairchain.models.onnx.file_checks import Limits, read_file
from fairchain.system.untrusted_files import object_once, open_plain

# Suffix, package to import, and package to install. A .json file may also be SOCRATES: see `holds_object`.
PACKAGES = {
    ".json": ("xgboost", "xgboost"),
    ".ubj": ("xgboost", "xgboost"),
    ".txt": ("lightgbm", "lightgbm"),
    ".cbm": ("catboost", "catboost"),
    ".skops": ("skops", "'fairchain[skops]'"),
}
# Number of characters in which the first key of an XGBoost JSON file must occur.
FIRST_KEY_WITHIN = 4096
# Older versions load types that are not trusted (CVE-2025-54413, CVE-2025-54886).
SAFE_SKOPS = (0, 13)
# The key for the number of outputs of an XGBoost model, and lists of a tree with one entry for each node.
OUTPUTS = ("num_class", "num_target")
XGBOOST_LISTS = ("base_weights", "default_left", "loss_changes", "parents", "split_type", "sum_hessian")
FILE_NEEDS = "{path}: a {suffix} file of {package} needs the package {package}; install it: pip install {install}"
DAMAGED_MODEL_FILE = "{path}: not a model that {package} saved, or a damaged one ({why}); save it again"
UNTRUSTED_TYPES = (
    "{path}: contains types that skops does not trust: {untrusted}; if you trust the file, load it in Python with "
    "skops.io.load(path, trusted=[...]) and give the object to fairchain.verify"
)


def holds_object(path: Path) -> bool:
    """Return whether `read_object` reads this file, by its suffix; a .json file, maybe of SOCRATES, by its first keys.

    A .json file that cannot be read is not XGBoost's.
    """
    suffix = path.suffix.lower()
    if suffix != ".json":
        return suffix in PACKAGES
    try:
        with open_plain(path) as file:
            return b'"learner"' in file.read(FIRST_KEY_WITHIN)
    except OSError:
        return False


def read_object(path: Path, limits: Limits | None = None) -> Any:
    """Return the model in a file, as an object of its package, or raise a ModelError with what to install or save."""
    suffix = path.suffix.lower()
    package, install = PACKAGES[suffix]
    limits = limits or Limits()
    content = read_file(path, limits.file_bytes, f"a {suffix} file")
    if find_spec(package) is None:
        raise ModelError(FILE_NEEDS.format(path=path, suffix=suffix, package=package, install=install))
    read = {".json": _xgboost, ".ubj": _xgboost, ".txt": _lightgbm, ".cbm": _catboost, ".skops": _skops}[suffix]
    if suffix == ".ubj":  # which only native code reads
        options = {"path": str(path)}
        content = native_reader.read_in_new_process(suffix, content, options, partial(_damaged, path, package))
    with native_reader.reading(partial(_damaged, path, package)), quiet():
        return read(path, content, limits)


def read_in_child(content: bytes, options: dict[str, Any]) -> bytes:
    """Return UBJSON as JSON, whose trees can be checked before native code reads them again.

    Runs in the process of `native_reader`.
    """
    path = Path(options["path"])
    with native_reader.reading(partial(_damaged, path, "xgboost")), quiet():
        return bytes(_booster(path, content).save_raw(raw_format="json"))


def _damaged(path: Path, package: str, why: str) -> ModelError:
    return ModelError(DAMAGED_MODEL_FILE.format(path=path, package=package, why=why))


def _xgboost(path: Path, content: bytes, _: Limits) -> Any:
    """Read XGBoost's JSON: as an estimator if one was saved, otherwise as a booster."""
    _check_xgboost(path, json.loads(content, object_pairs_hook=object_once))
    booster = _booster(path, content)
    saved = json.loads(booster.attr("scikit_learn") or "{}")
    xgboost = import_module("xgboost")
    kinds = {"classifier": xgboost.XGBClassifier, "regressor": xgboost.XGBRegressor}
    if not isinstance(saved, dict) or saved.get("_estimator_type") not in kinds:
        return booster
    estimator = kinds[saved["_estimator_type"]]()
    estimator.load_model(bytearray(content))
    return estimator


def _booster(path: Path, content: bytes) -> Any:
    if not content.startswith(b"{") or b"learner" not in content[:FIRST_KEY_WITHIN]:
        raise _damaged(path, "xgboost", "it does not begin as one")
    booster = import_module("xgboost").Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    return booster


def _check_xgboost(path: Path, content: Any) -> None:
    """Raise a ModelError, or an exception of a damaged file, unless every tree of XGBoost's JSON is valid."""
    part = content["learner"]["gradient_booster"]
    width = int(content["learner"]["learner_model_param"]["num_feature"])
    if part["name"] == "gblinear":
        return
    model = part["model"] if "model" in part else part["gbtree"]["model"]
    trees = model["trees"]
    if len(trees) > MOST_TREES:
        raise ModelError(f"{path}: {len(trees):,} trees, which is more than the limit of {MOST_TREES:,}")
    outputs = max(1, *(int(content["learner"]["learner_model_param"].get(key, 1)) for key in OUTPUTS))
    owners = _whole(model["tree_info"])
    if len(owners) != len(trees) or (owners < 0).any() or (owners >= outputs).any():
        raise ValueError("trees for outputs that it does not have")
    for tree in trees:
        left, right, split = (_whole(tree[key]) for key in ("left_children", "right_children", "split_indices"))
        conditions = np.asarray(tree["split_conditions"], np.float64)
        nodes = len(left)
        lengths = {len(right), len(split), len(conditions), int(tree["tree_param"]["num_nodes"])}
        if lengths | {len(tree[key]) for key in XGBOOST_LISTS if key in tree} != {nodes}:
            raise ValueError("lists of different lengths in a tree")
        inner = left >= 0
        if (left[~inner] != -1).any() or not np.array_equal(left == -1, right == -1):
            raise ValueError("a tree with a leaf that is not marked as one")
        if not np.array_equal(inner, right >= 0) or (split[inner] >= max(width, 1)).any() or (split < 0).any():
            raise ValueError("a tree with an index out of its bounds")
        must_be_tree(np.concatenate([left[inner], right[inner]]), nodes)
        # Native code follows parents too; the root has none.
        parents, owner = _whole(tree["parents"]), np.flatnonzero(inner)
        if (parents[left[inner]] != owner).any() or (parents[right[inner]] != owner).any():
            raise ValueError("a tree with a node that is not below its parent")
        check_depth(left, right)
        _check_xgboost_categories(tree, nodes)


def _check_xgboost_categories(tree: dict[str, Any], nodes: int) -> None:
    """Raise a ValueError unless the splits by category of a tree lie inside their list."""
    owners, starts, sizes = (_whole(tree.get(f"categories_{key}", ())) for key in ("nodes", "segments", "sizes"))
    total = len(tree.get("categories", ()))
    inside = len(owners) == len(starts) == len(sizes) and (owners >= 0).all() and (owners < nodes).all()
    if not inside or (starts < 0).any() or (sizes < 0).any() or (starts + sizes > total).any():
        raise ValueError("a tree with categories out of their bounds")


def _whole(values: Any) -> NDArray[np.int64]:
    """Return a list of integers; raise a ValueError for other values."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError("a list with other values than whole numbers")
    return found.astype(np.int64)


def _lightgbm(_path: Path, content: bytes, _: Limits) -> Any:
    return import_module("lightgbm").Booster(params={"num_threads": 1}, model_str=checked_text(content.decode()))


def _catboost(path: Path, content: bytes, _: Limits) -> Any:
    """Return a model in CatBoost's own format; another process reads it."""
    size = int.from_bytes(content[4:8], "little")
    if not content.startswith(b"CBM1") or size + 8 > len(content):
        raise _damaged(path, "catboost", "it does not begin like one, or is truncated")
    return CatBoostFile(content, partial(_damaged, path, "catboost"))


def _skops(path: Path, content: bytes, limits: Limits) -> Any:
    """Read a scikit-learn estimator with only the types that skops trusts."""
    version = tuple(int(part) for part in import_module("importlib.metadata").version("skops").split(".")[:2])
    if version < SAFE_SKOPS:
        raise ModelError(f"{path}: skops {version[0]}.{version[1]} is not safe with such files; update skops")
    unpacked(path, content, limits.file_bytes, "a .skops file")
    io = import_module("skops.io")
    untrusted = io.get_untrusted_types(data=content)
    if untrusted:
        raise ModelError(UNTRUSTED_TYPES.format(path=path, untrusted=listed([str(each) for each in untrusted])))
    return io.loads(content, trusted=[])
