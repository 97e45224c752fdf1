"""LightGBM's text files, parsed line by line and written again: LightGBM reads only checked lines.

LightGBM trusts its input: a damaged line of its parameters, or an index out of bounds, ends the process. So every line
must be known, every list must have its required length, every index must be inside its bounds, and every tree must be a
tree. Only two parameters are kept, the objective and the category columns; the others belong to the training.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_TREES = 100_000
# Largest depth of a tree: converters traverse trees by recursion.
MOST_TREE_DEPTH = 1_000
TREE_TOO_DEEP = f"a tree of more than {MOST_TREE_DEPTH:,} levels"
_INTEGER, _NUMBER = r"-?\d{1,10}", r"-?\d{1,40}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,3})?"
_ANY = rf"(?:{_NUMBER}|-?inf|-?nan)"
_PARAMETERS, _END = "\nparameters:", "end of parameters"
_CATEGORIES = "pandas_categorical:"


def _listed(each: str) -> re.Pattern[str]:
    # Linear models are separated by further blanks.
    return re.compile(rf" *(?:{each}(?: +{each})*)? *")


_WORD = r"[a-z0-9_]{1,40}"
# Lines of the head and the pattern of their values.
_HEAD = {
    "version": re.compile(r"v\d{1,2}"),
    **dict.fromkeys(("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx"), re.compile(r"\d{1,9}")),
    "objective": re.compile(rf"{_WORD}(?: {_WORD}(?::{_NUMBER})?)*"),
    "feature_names": re.compile(r"[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*"),
    "feature_infos": _listed(r"(?:none|\[[-+0-9.e:infa]+\]|[-+0-9.e:]+)"),
    "monotone_constraints": _listed(_INTEGER),
    "tree_sizes": _listed(r"\d{1,12}"),
}
_AVERAGED = "average_output"
# Lists of a tree: the type of their values, and their length minus the number of leaves.
_OF_LEAVES = {"leaf_value": _NUMBER, "leaf_weight": _ANY, "leaf_count": _INTEGER, "leaf_const": _NUMBER}
_OF_SPLITS = {
    **dict.fromkeys(("split_feature", "decision_type", "left_child", "right_child", "internal_count"), _INTEGER),
    "threshold": _NUMBER,
    **dict.fromkeys(("split_gain", "internal_value", "internal_weight"), _ANY),
}
_OTHERS = {
    **dict.fromkeys(("num_leaves", "num_cat", "is_linear"), r"\d{1,9}"),
    "shrinkage": _NUMBER,
    "cat_boundaries": _INTEGER,
    "cat_threshold": r"\d{1,10}",
    "num_features": _INTEGER,
    "leaf_features": _INTEGER,
    "leaf_coeff": _NUMBER,
}
_LISTS = {key: _listed(each) for key, each in {**_OF_LEAVES, **_OF_SPLITS, **_OTHERS}.items()}
# Bits of a decision type: by category, missing values to the left, and the kind of missing values, 0 to 2.
_KINDS = 12


def checked_text(text: str) -> str:
    """Return the text of a model, written again from its checked lines, or raise a ValueError with the defect."""
    body, found, rest = text.replace("\r\n", "\n").partition("end of trees")
    head, *blocks = body.split("\nTree=")
    if not found or len(blocks) > MOST_TREES:
        raise ValueError(f"the end of the trees is missing, or there are more than {MOST_TREES:,} trees")
    lines = head.split("\n")
    if lines[0] != "tree":
        raise ValueError('it does not begin with "tree"')
    entries = _entries([line for line in lines[1:] if line != _AVERAGED], _HEAD)
    width = _check_head(entries, len(blocks))
    # LightGBM splits the text at the stated sizes, without checking the contents there.
    sizes = [len(f"Tree={block}".encode()) + (place < len(blocks) - 1) for place, block in enumerate(blocks)]
    if "\r\n" not in text and _integers(entries.pop("tree_sizes", "")).tolist() != sizes:
        raise ValueError("the sizes of trees differ from those that it states")
    trees = [f"Tree={place}\n{_tree(block, place, width)}\n\n\n" for place, block in enumerate(blocks)]
    entries["tree_sizes"] = " ".join(str(len(tree)) for tree in trees)
    first = ["tree", *_written(entries), *([_AVERAGED] if _AVERAGED in lines else []), "", ""]
    last = ["end of trees", "", *_parameters(rest, entries, width), "", f"{_CATEGORIES}{_categories(rest)}", ""]
    return "\n".join(first) + "".join(trees) + "\n".join(last)


def _entries(lines: Iterable[str], known: Mapping[str, re.Pattern[str]]) -> dict[str, str]:
    """Return the keys and values of some lines; each key must be known and unique, each value in its format."""
    found: dict[str, str] = {}
    for line in filter(None, lines):
        key, equals, value = line.partition("=")
        if not equals or key not in known or key in found:
            raise ValueError(f"an unknown or repeated line: {line[:40]!r}")
        if not known[key].fullmatch(value):
            raise ValueError(f"a line with invalid values: {line[:40]!r}")
        found[key] = value
    return found


def _written(entries: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in entries.items()]


def _integers(text: str) -> NDArray[np.int64]:
    return np.array(text.split(), np.int64)


def _check_head(entries: Mapping[str, str], trees: int) -> int:
    """Return the number of columns; the numbers of classes, columns and trees must agree."""
    width = int(entries["max_feature_idx"]) + 1
    if any(len(entries.get(key, "").split(" ")) != width for key in ("feature_names", "feature_infos")):
        raise ValueError("names or ranges of another number of columns")
    if "monotone_constraints" in entries and len(entries["monotone_constraints"].split()) != width:
        raise ValueError("constraints of another number of columns")
    classes, each = (int(entries.get(key, "1")) for key in ("num_class", "num_tree_per_iteration"))
    objective = re.findall(r"num_class:(\d+)", entries.get("objective", ""))
    if classes < 1 or each != classes or any(int(stated) != classes for stated in objective) or trees % classes:
        raise ValueError("numbers of classes and trees that contradict each other")
    return width


def _tree(block: str, place: int, width: int) -> str:
    """Return the lines of a tree, checked."""
    number, _, rest = block.partition("\n")
    if number != str(place):
        raise ValueError("trees that are not numbered one after another")
    entries = _entries(rest.split("\n"), _LISTS)
    leaves = int(entries["num_leaves"])
    if not 0 < leaves <= len(block):
        raise ValueError("a tree with another number of leaves than values")
    for key in _OF_LEAVES:
        if (key in entries and (entries[key] or leaves > 1)) or key == "leaf_value":
            _list(entries, key, leaves)
    if leaves > 1:
        _check_splits(entries, leaves, width)
    _check_linear(entries, leaves, width)
    return "\n".join(_written(entries))


def _list(entries: Mapping[str, str], key: str, count: int) -> NDArray[np.float64]:
    """Return a list of this length."""
    values = np.array(entries.get(key, "").split(), np.float64)
    if len(values) != count or (key in ("leaf_value", "threshold") and not np.isfinite(values).all()):
        raise ValueError(f"a tree with another number of values, or an infinite one, in {key}")
    return values


def _check_splits(entries: Mapping[str, str], leaves: int, width: int) -> None:
    of = partial(_list, entries, count=leaves - 1)
    for key in _OF_SPLITS:
        if key in entries or key in ("split_feature", "decision_type", "threshold"):
            of(key)
    left, right, split, kinds = (
        of(key).astype(np.int64) for key in ("left_child", "right_child", "split_feature", "decision_type")
    )
    if (split < 0).any() or (split >= width).any() or (kinds < 0).any() or (kinds >= _KINDS).any():
        raise ValueError("a tree with a column or a kind of split out of its bounds")
    children = np.concatenate([left, right])
    must_be_tree(children[children >= 0], leaves - 1)
    # Leaves are written as -1, -2, ...
    must_be_tree(-children[children < 0], leaves + 1)
    check_depth(left, right)
    _check_categories(entries, of("threshold")[kinds & 1 == 1])


def must_be_tree(children: NDArray[np.int64], nodes: int) -> None:
    """Raise a ValueError unless each node is the child of at most one node, and the root of none.

    Then no path from the root visits a node twice, so evaluating a row terminates.
    """
    if len(children) and (children.min() < 1 or children.max() >= nodes):
        raise ValueError("a tree with a child out of its bounds")
    if len(np.unique(children)) != len(children):
        raise ValueError("a tree in which a node has two parents")


def check_depth(left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Raise a ValueError if a tree is so deep that traversing it by recursion would end the process."""
    level, depth = np.zeros(1, np.int64), 0
    while len(level):
        level, depth = np.concatenate([left[level], right[level]]), depth + 1
        level = level[level >= 0]
        if depth > MOST_TREE_DEPTH:
            raise ValueError(TREE_TOO_DEEP)


def _check_categories(entries: Mapping[str, str], used: NDArray[np.float64]) -> None:
    """Raise a ValueError unless the splits by category of a tree lie inside their list."""
    count = int(entries.get("num_cat", "0"))
    if not count and len(used):
        raise ValueError("a tree with categories and no list of them")
    if not count:
        return
    bounds, words = (_integers(entries.get(key, "")) for key in ("cat_boundaries", "cat_threshold"))
    inside = len(bounds) == count + 1 and bounds[0] == 0 and bounds[-1] == len(words) and (np.diff(bounds) >= 0).all()
    known = (used == np.floor(used)) & (used >= 0) & (used < count)
    if not inside or (words >= 2**32).any() or not known.all():
        raise ValueError("a tree with categories out of their bounds")


def _check_linear(entries: Mapping[str, str], leaves: int, width: int) -> None:
    """Raise a ValueError unless the linear models in the leaves of a tree, if any, have their lists."""
    if entries.get("is_linear", "0") == "0":
        if any(key in entries for key in ("leaf_const", "num_features", "leaf_features", "leaf_coeff")):
            raise ValueError("lists of linear models in a tree without linear models")
        return
    _list(entries, "leaf_const", leaves)
    counts, columns = (_integers(entries.get(key, "")) for key in ("num_features", "leaf_features"))
    if len(counts) != leaves or (counts < 0).any() or counts.sum() != len(columns):
        raise ValueError("linear models of other numbers of columns")
    if (columns < 0).any() or (columns >= width).any():
        raise ValueError("a linear model of a column out of its bounds")
    _list(entries, "leaf_coeff", len(columns))


def _parameters(rest: str, entries: Mapping[str, str], width: int) -> list[str]:
    """Return the lines of the two parameters that are kept."""
    inside = rest.partition(_PARAMETERS)[2].partition(_END)[0]
    kept = []
    if "objective" in entries:
        kept.append(f"[objective: {entries['objective'].partition(' ')[0]}]")
    found = re.findall(r"^\[categorical_feature: ([^\]\n]*)\]$", inside, re.MULTILINE)
    if found and found[0]:
        if len(found) > 1 or not re.fullmatch(r"\d{1,9}(?:,\d{1,9})*", found[0]):
            raise ValueError("category columns that are not a list of numbers")
        if max(map(int, found[0].split(","))) >= width:
            raise ValueError("a category column out of its bounds")
        kept.append(f"[categorical_feature: {found[0]}]")
    return ["parameters:", *kept, "", _END] if kept else []


def _categories(rest: str) -> str:
    """Return the values of category columns that pandas knew, as JSON."""
    line = next((line for line in reversed(rest.split("\n")) if line.startswith(_CATEGORIES)), _CATEGORIES + "null")
    values: Any = json.loads(line.removeprefix(_CATEGORIES))
    if values is not None and not (isinstance(values, list) and all(isinstance(each, list) for each in values)):
        raise ValueError("categories that are not lists")
    return json.dumps(values)
