"""Rules of operators on shapes and positions: shapes, constants, reshaping, slices, gathering.

They raise a `TaintedError` like the rules of `operator_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from fairchain.models.onnx.operators import Operator, RuleTable
from fairchain.models.onnx.tensor_facts import (
    BATCH,
    MOST_ENTRIES,
    ONE,
    TOO_LARGE_SIZE,
    ZERO,
    Axis,
    Factor,
    Followed,
    Size,
    TaintedError,
    axed,
    axis_of,
    common_order,
    factors_of,
    first_taint,
    fixed_size,
    has_rows,
    inverse_of,
    known_numbers,
    place_of,
    product_of,
    quotient_of,
    regarded,
    reordered,
    rows_once,
    single_entry,
    split_factors,
    sum_of,
    whole_numbers,
    with_axis,
    written_constant,
)

shape_rule = RuleTable()
SHAPE_NOT_ANALYSED = "has a shape that is computed in a way that is not analysed"


@shape_rule("Shape Size")
def _measured(op: Operator) -> Followed:
    tainted = bool(first_taint(op.inputs))
    if op.kind == "Size":
        return whole_numbers((product_of(op.sizes()),), (), tainted=tainted)
    if op.inputs[0] is None or op.inputs[0].axes is None:
        return Followed((op.new(),), taint=first_taint(op.inputs))
    return whole_numbers(op.sizes()[op.number("start", 0) : op.number("end", op.data.rank)], tainted=tainted)


@shape_rule("Constant")
def _written(op: Operator) -> Followed:
    given = op.attributes
    if "value" in given:
        return written_constant(given["value"].t)
    if "value_int" in given:
        return whole_numbers(((op.number("value_int", 0), ()),), (), tainted=False)
    if "value_ints" in given:
        return whole_numbers(tuple((each, ()) for each in op.numbers("value_ints") or ()), tainted=False)
    for name in ("floats", "strings"):
        if f"value_{name}" in given:
            return Followed((axis_of(len(getattr(given[f"value_{name}"], name))),))
    return Followed(tuple(map(axis_of, given["sparse_value"].sparse_tensor.dims)) if "sparse_value" in given else ())


@shape_rule("ConstantOfShape")
def _filled(op: Operator) -> Followed:
    """Return a constant tensor; only its shape can depend on the batch."""
    shape, value = op.inputs[0], op.attributes.get("value")
    fill = written_constant(value.t).entries if value is not None else (ZERO,)
    if shape is None or shape.entries is None:
        if first_taint([shape]):
            raise TaintedError("has a shape that depends on the number of rows")
        return Followed(None)
    (count, symbols), *more = [size or (0, ("",)) for size in shape.entries] or [ONE]
    listed = not more and not symbols and count <= MOST_ENTRIES
    entries = fill * count if listed and fill is not None else None
    return replace(rows_once(_target(op, shape), None, ""), entries=entries, alike=True)


@shape_rule("Range")
def _range(op: Operator) -> Followed:
    start, limit, step = (single_entry(each) for each in op.inputs)
    if start == ZERO and step == ONE and limit is not None:
        if limit == (1, (BATCH,)):
            reason = "operator Range numbers the rows of a batch, and the numbers are used as values"
            return Followed(((BATCH,),), taint=reason, order="", permutation="rows")
        if BATCH not in limit[1] and limit[0] >= 0:
            return Followed((factors_of(limit),))
    if first_taint(op.inputs):
        raise TaintedError("counts to the number of rows")
    return Followed((op.new(),))


@shape_rule("Transpose")
def _transposed(op: Operator) -> Followed:
    order = op.numbers("perm") or list(range(op.data.rank))[::-1]
    return regarded(op.data, (op.data.shape[place] for place in order))


@shape_rule("Flatten")
def _flattened(op: Operator) -> Followed:
    at = op.number("axis", 1)
    at = at + op.data.rank if at < 0 else at
    return regarded(replace(op.data, entries=None), (sum(op.data.shape[:at], ()), sum(op.data.shape[at:], ())))


@shape_rule("Squeeze")
def _squeezed(op: Operator) -> Followed:
    data, axes = op.data, op.axes()
    if axes is None and any(isinstance(factor, str) for axis in data.shape for factor in axis):
        # An axis of free size is also removed whenever its size is 1.
        raise TaintedError("removes the batch dimension, or another free one, if its size is 1; give it axes")
    ones = [place for place, axis in enumerate(data.shape) if not axis]
    places = [place_of(axis, data.rank) for axis in axes] if axes is not None else ones
    if data.batch in places:
        raise TaintedError("removes the batch dimension")
    return regarded(data, (axis for place, axis in enumerate(data.shape) if place not in places))


@shape_rule("Unsqueeze")
def _unsqueezed(op: Operator) -> Followed:
    axes = op.axes() or []
    rank = op.data.rank + len(axes)
    new, rest = {place_of(axis, rank) for axis in axes}, iter(op.data.shape)
    if len(new) < len(axes):
        raise TaintedError("names an axis twice")
    return regarded(op.data, tuple(() if place in new else next(rest) for place in range(rank)))


@shape_rule("Reshape")
def _reshaped(op: Operator) -> Followed:
    data, wanted = op.inputs[0], op.inputs[1]
    if data is None or wanted is None or (data.taint and data.axes is None):
        return Followed(None, taint=first_taint([data]))
    if data.axes is None or wanted.entries is None:
        if data.batch is not None or first_taint([data, wanted]):
            raise TaintedError(SHAPE_NOT_ANALYSED)
        rank = fixed_size(wanted.axes[0]) if wanted.axes else None
        return Followed(tuple(op.new() for _ in range(rank)) if rank is not None else None)
    _target(op, wanted)
    sizes = list(wanted.entries)
    for place, size in enumerate(sizes):
        if size == ZERO and place < data.rank and not op.number("allowzero", 0):
            sizes[place] = op.size(data.axes[place])
    axes = _regrouped(op, list(sum(data.axes, ())), sizes)
    return regarded(replace(data, entries=data.entries if len(axes) <= 1 else None), axes)


def _regrouped(op: Operator, factors: list[Factor], sizes: list[Size]) -> tuple[Axis, ...]:
    """Split factors into axes of these sizes, or up to the axis with the rows."""
    if (-1, ()) in sizes:
        at = sizes.index((-1, ()))
        sizes[at] = quotient_of(op.size(tuple(factors)), product_of(sizes[:at] + sizes[at + 1 :]))

    def has_batch(sizes: Iterable[Size]) -> bool:
        return any(size is not None and BATCH in size[1] for size in sizes)

    front = split_factors(factors, sizes, op.graph.batch)
    rest = sizes[len(front) :]
    if not rest:
        return tuple(front)
    if not has_batch(rest):
        if BATCH not in factors:
            return (*front, *map(op.new, rest))
        if any(BATCH in axis for axis in front):
            return (*front, *(op.new() for _ in rest))
    back = split_factors(factors[::-1], sizes[::-1], op.graph.batch)
    rest = sizes[: len(sizes) - len(back)]
    if any(BATCH in axis for axis in back) and not has_batch(rest):
        return (*(op.new() for _ in rest), *(axis[::-1] for axis in back[::-1]))
    raise TaintedError("spreads rows over a shape in which they cannot be distinguished")


@shape_rule("Concat")
def _concatenated(op: Operator) -> Followed:
    parts, place = [axed(each) for each in op.inputs], op.axis(1)
    if len(parts) == 1:
        return parts[0]
    if any(part.batch == place for part in parts):
        raise TaintedError("puts rows of several batches one after the other")
    if all(part.entries is not None and part.rank == 1 for part in parts):
        return whole_numbers(
            tuple(entry for part in parts for entry in part.entries or ()), tainted=bool(first_taint(parts))
        )
    if any(part.rank != parts[0].rank for part in parts):
        raise TaintedError("joins tensors of different ranks")
    axes = []
    for at, here in enumerate(zip(*(part.shape for part in parts), strict=True)):
        axes.append(op.one_axis(here) if at != place else sum_of(here) or op.new())
    made = op.made(axes)
    # The last axis contains positions; the first of them is the row's own number.
    first = parts[0]
    own = first.permutation == "rows" and first.rank > 1 and place == first.rank - 1
    own = own and first.shape[0] == (BATCH,) and first.shape[place] == ()
    if own and not first_taint(parts[1:]) and common_order(parts[1:]) in ("", None):
        return replace(made, permutation="rows first")
    return made


@shape_rule("FeatureVectorizer")
def _columns_joined(op: Operator) -> Followed:
    parts = [axed(each) for each in op.inputs]
    if any(part.batch not in (None, 0) or part.rank != 2 for part in parts):
        raise TaintedError("takes the rows of a batch for columns")
    return op.made((op.one_axis(part.shape[0] for part in parts), op.new()))


@shape_rule("Split")
def _pieces(op: Operator) -> list[Followed]:
    data, place, sizes = op.data, op.axis(0), op.listed("split", 1)
    if data.batch == place:
        raise TaintedError("splits the rows of a batch")
    if sizes is None:
        whole = fixed_size(data.shape[place])
        even = whole is not None and whole % op.outputs == 0
        sizes = [whole // op.outputs if whole is not None and even else -1] * op.outputs
    sizes += [-1] * (op.outputs - len(sizes))
    return [op.made(with_axis(data, place, axis_of(size) if size > 0 else op.new())) for size in sizes[: op.outputs]]


@shape_rule("Slice")
def _sliced(op: Operator) -> Followed:
    data = op.data
    if "starts" in op.attributes:
        starts, ends = op.numbers("starts") or [], op.numbers("ends") or []
        axes, steps = op.numbers("axes") or list(range(len(starts))), [1] * len(starts)
        bounds: list[Any] = [((start, ()), (end, ())) for start, end in zip(starts, ends, strict=True)]
    else:
        entries = [getattr(op.optional(place), "entries", None) for place in (1, 2)]
        count = max((len(each) for each in entries if each is not None), default=0)
        bounds = list(zip(*(each if each is not None else (None,) * count for each in entries), strict=True))
        given, stepped = op.optional(3), op.optional(4)
        axes = known_numbers(given, "with axes that are computed") if given is not None else list(range(count))
        steps = [1 if stepped is None else 0] * count
        if stepped is not None and stepped.entries is not None:
            steps = known_numbers(stepped, "")
    if not bounds:
        if data.batch is not None:
            raise TaintedError("cuts in a way that is not analysed")
        return op.made(op.new() for _ in data.shape)
    made, taint = list(data.shape), data.taint
    for axis, (start, end), step in zip(axes, bounds, steps, strict=True):
        place = place_of(axis, data.rank)
        size = op.size(made[place])
        to_end = end is not None and ((not end[1] and end[0] >= TOO_LARGE_SIZE) or end == size)
        if start == ZERO and to_end and step == 1:
            continue
        if place == data.batch:
            raise TaintedError("chooses some rows of a batch")
        if any(bound is None or BATCH in bound[1] for bound in (start, end)):
            taint = taint or first_taint(op.inputs[1:])
        known = step and not any(each is None or each[1] for each in (size, start, end))
        made[place] = axis_of(len(range(size[0])[start[0] : end[0] : step])) if size and known else op.new()
    start, end = bounds[0]
    single = len(bounds) == 1 and data.rank == 1 and steps[0]
    if data.entries is not None and single and not any(each is None or each[1] for each in (start, end)):
        return whole_numbers(data.entries[start[0] : end[0] : steps[0]], tainted=bool(first_taint(op.inputs)))
    return rows_once(tuple(made), data.order, taint, alike=data.alike)


@shape_rule("ArrayFeatureExtractor Gather")
def _gathered(op: Operator) -> Followed:
    data, index, place = op.data, axed(op.inputs[1]), op.axis(0)
    if op.kind == "ArrayFeatureExtractor":
        place = data.rank - 1
        index = replace(index, axes=(sum(index.shape, ()),))
    if data.entries is not None and index.entries is not None and data.rank == 1:
        places = known_numbers(index, "with places that are computed")
        if all(-len(data.entries) <= at < len(data.entries) for at in places):
            return whole_numbers(tuple(data.entries[at] for at in places), index.axes, tainted=bool(data.taint))
    # Identical rows may be selected, unless something else precedes them in their axis.
    if data.batch == place and (data.order is not None or data.shape[place][0] != BATCH):
        if not index.permutation or index.axes != ((BATCH,),) or data.shape[place] != (BATCH,):
            raise TaintedError("chooses some rows of a batch")
        order = reordered(data.order or "", index.permutation)
        return replace(data, order=order, entries=None, permutation="")
    return op.made((*data.shape[:place], *index.shape, *data.shape[place + 1 :]))


@shape_rule("GatherElements ScatterElements")
def _by_element(op: Operator) -> Followed:
    """Select or replace elements along an axis; rows are unchanged on any other axis."""
    data, index, place = op.data, axed(op.inputs[1]), op.axis(0)
    updates = op.inputs[2] if op.kind == "ScatterElements" else None
    if place in (data.batch, index.batch):
        inverted = updates is not None and updates.permutation == "rows" and updates.axes == index.axes
        replaces = op.text("reduction", b"none") == b"none"
        if inverted and index.permutation and index.axes == data.axes == ((BATCH,),) and replaces:
            return replace(index, permutation=inverse_of(index.permutation))
        raise TaintedError("chooses some rows of a batch")
    parts = [each for each in (data, index, updates) if each is not None]
    if len({(part.batch, part.shape[part.batch] if part.batch is not None else ()) for part in parts}) > 1:
        raise TaintedError("joins rows and values that are not rows along one axis")
    return op.made((data if updates is not None else index).shape)


@shape_rule("GatherND ScatterND")
def _by_position(op: Operator) -> Followed:
    """Gather by tuples of positions; if the first counts the rows, each row selects from itself."""
    data, index = op.data, axed(op.inputs[1])
    if op.kind == "ScatterND":
        if any(map(has_rows, op.inputs)):
            raise TaintedError("replaces rows in a way that is not analysed")
        return op.made(data.shape)
    depth, same = fixed_size((index.axes or ((),))[-1]), op.number("batch_dims", 0)
    if depth is None:
        raise TaintedError("gathers in a way that is not analysed")
    axes = (*index.shape[:-1], *data.shape[same + depth :])
    if (data.batch is None and not same) or (
        same and data.batch == 0 and index.batch == 0 and data.shape[0] == index.shape[0]
    ):
        return op.made(axes)
    if not same and data.shape[0] == (BATCH,) and data.order == "" and index.permutation == "rows first":
        return rows_once(axes, "", data.taint)
    raise TaintedError("chooses some rows of a batch")


@shape_rule("Expand Tile")
def _expanded(op: Operator) -> Followed:
    data, wanted = op.data, op.inputs[1]
    if wanted is None or wanted.entries is None:
        if data.batch is not None or first_taint([wanted]):
            raise TaintedError(SHAPE_NOT_ANALYSED)
        return Followed(None, taint=data.taint)
    target = _target(op, wanted)
    if op.kind == "Tile":
        if any(BATCH in axis and times for axis, times in zip(data.shape, target, strict=True)):
            raise TaintedError("repeats the rows of a batch")
        axes = tuple(times + axis for axis, times in zip(data.shape, target, strict=True))
        return rows_once(axes, data.order, data.taint, alike=data.alike)
    if op.graph.batch is not None and data.batch is not None:
        # If the batch is fixed, its size may be a number.
        at = data.batch - data.rank
        if -at <= len(target) and target[at] == axis_of(op.graph.batch):
            target = with_axis(Followed(target), at + len(target), data.shape[data.batch])
    joined = op.joined([replace(data, alike=False), Followed(target)])
    # The number of each row, repeated for every element of the row.
    numbered = "rows" if data.permutation == "rows" and has_rows(data) else ""
    return replace(joined, taint=data.taint, alike=data.alike, permutation=numbered)


def _target(op: Operator, shape: Followed) -> tuple[Axis, ...]:
    """Return the axes that a list of sizes describes."""
    if shape.taint and any(size is None for size in shape.entries or ()):
        raise TaintedError("has a shape that depends on the number of rows in a way that is not analysed")
    return tuple(map(op.new, shape.entries or ()))


@shape_rule("Pad")
def _padded(op: Operator) -> Followed:
    data, pads = op.data, op.listed("pads", 1)
    if data.batch is None:
        return op.made(op.new() for _ in data.shape)
    if pads is None or len(op.inputs) > 3 or len(pads) != 2 * data.rank:
        raise TaintedError("adds rows in a way that is not analysed")
    grown = [bool(before or after) for before, after in zip(pads[: data.rank], pads[data.rank :], strict=True)]
    if grown[data.batch]:
        raise TaintedError("adds rows to a batch")
    return op.made(op.new() if more else axis for more, axis in zip(grown, data.shape, strict=True))
