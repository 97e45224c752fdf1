"""What is known of a tensor before a network runs: its shape, the whole numbers in it, and whether its rows are apart.

A shape is kept as factors, so that a reshape that merges the batch with other axes and splits it again is understood.
Sizes are products of numbers and names. A tensor is *tainted* as soon as it may depend on more than its own row.
`operator_rules` says what each operator makes of such tensors, `row_independence` follows them through a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from onnx import TensorProto

BATCH = "the batch"
# A factor of a size: a number, the batch, or another size that is not known and does not depend on the batch.
Factor = int | str
# The factors of an axis, the slowest first; none for an axis of size 1.
Axis = tuple[Factor, ...]
# An entry of a tensor of whole numbers: a number times unknown sizes; None if nothing is known.
Size = tuple[int, tuple[str, ...]] | None
ZERO, ONE = (0, ()), (1, ())
# Most entries of a tensor of whole numbers that are followed one by one; a shape has fewer.
MOST_ENTRIES = 64
TOO_LARGE_SIZE = 2**31 - 1
# Numbers of ONNX for types: whole numbers, and fractions that hold them.
INT32, INT64 = 6, 7
# How many bits of a whole number each type keeps: int32, int64, float and double.
BITS = {INT32: 31, INT64: 63, 1: 24, 11: 53}
# Bits of the largest size: of the batch and of the axes of inputs, and of an axis that is computed.
SIZE_BITS, COMPUTED_BITS = 20, 31


class Followed(Struct, frozen=True):
    """What is known of a tensor.

    Parameters
    ----------
    axes
        Its shape in factors; None if its rank is unknown, in which case it has no batch axis.
    entries
        What it holds if it is a short list of whole numbers.
    taint
        Why it may depend on more than its own row; "" if it cannot.
    order
        The order of its rows: "" as in the inputs, or the name of a permutation; None if all rows are alike.
    permutation
        The name of the permutation that it holds, if it holds one.
    alike
        Whether all of its elements are the same number.
    bits
        How large its whole numbers can be, and those that they were computed from.
    """

    axes: tuple[Axis, ...] | None
    entries: tuple[Size, ...] | None = None
    taint: str = ""
    order: str | None = None
    permutation: str = ""
    alike: bool = False
    bits: int = 63

    @property
    def shape(self) -> tuple[Axis, ...]:
        """The axes of a tensor whose rank is known."""
        return self.axes or ()

    @property
    def batch(self) -> int | None:
        """The axis with the rows, if there is one."""
        return next((place for place, axis in enumerate(self.shape) if BATCH in axis), None)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


class TaintedError(Exception):
    """Raised by the rule of an operator with the reason why what it makes is tainted."""


class PassedOnError(TaintedError):
    """Raised with the reason why a tensor that an operator needs to know more of is tainted already."""


def axis_of(size: int | str) -> Axis:
    """Return the axis of one factor."""
    return () if size == 1 else (size,)


def size_of(axis: Axis, batch: int | None = None) -> tuple[int, tuple[str, ...]]:
    """Return the product of factors; a fixed batch is a number."""
    numbers = [batch if factor == BATCH and batch is not None else factor for factor in axis]
    return prod(f for f in numbers if isinstance(f, int)), tuple(sorted(f for f in numbers if isinstance(f, str)))


def fixed_size(axis: Axis) -> int | None:
    """Return the size of an axis that is a number."""
    number, symbols = size_of(axis)
    return None if symbols else number


def factors_of(size: tuple[int, tuple[str, ...]]) -> Axis:
    """Return the axis of a size."""
    return (*axis_of(size[0]), *size[1])


def product_of(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes, None if one is not known."""
    number, symbols = 1, list[str]()
    for size in sizes:
        if size is None:
            return None
        number *= size[0]
        symbols += size[1]
    return number, tuple(sorted(symbols))


def quotient_of(whole: Size, part: Size) -> Size:
    """Return the size that times `part` is `whole`, None if it is not known to be one."""
    if whole is None or part is None or not part[0] or whole[0] % part[0]:
        return None
    left = Counter(whole[1])
    left.subtract(part[1])
    if any(count < 0 for count in left.values()):
        return None
    return whole[0] // part[0], tuple(sorted(left.elements()))


def sum_of(axes: Iterable[Axis]) -> Axis:
    """Return the axis of the sum of these sizes; () if it is not known."""
    sizes = [fixed_size(axis) for axis in axes]
    return axis_of(sum(size or 0 for size in sizes)) if None not in sizes else ()


def split_factors(factors: Sequence[Factor], sizes: Sequence[Size], batch: int | None) -> list[Axis]:
    """Return the factors of each of these sizes, in order, as far as they can be told."""
    rest, axes = list(factors), list[Axis]()
    for size in sizes:
        if size is None or size[0] < 1:
            return axes
        number, symbols, taken = size[0], list(size[1]), list[Factor]()
        while number != 1 or symbols:
            factor = rest.pop(0) if rest else None
            if factor == BATCH and BATCH not in symbols and batch is not None and number % batch == 0:
                number //= batch
            elif isinstance(factor, str) and factor in symbols:
                symbols.remove(factor)
            elif isinstance(factor, int) and number % factor == 0:
                number //= factor
            elif isinstance(factor, int) and factor % number == 0 and not symbols:
                rest.insert(0, factor // number)
                factor, number = number, 1
            else:
                return axes
            taken.append(factor)
        axes.append(tuple(taken))
    return axes


def rows_once(axes: tuple[Axis, ...], order: str | None, taint: str, *, alike: bool = False) -> Followed:
    """Return what is known of a tensor with rows along one axis at most."""
    if sum(axis.count(BATCH) for axis in axes) > 1:
        raise TaintedError("compares the rows of a batch with each other")
    return Followed(axes, taint=taint, order=order, alike=alike)


def whole_numbers(entries: tuple[Size, ...], axes: tuple[Axis, ...] | None = None, *, tainted: bool) -> Followed:
    """Return what is known of a tensor of whole numbers, which is tainted if one of them depends on the batch.

    `tainted` says whether something that it was made from is; then a number that is not known may depend on the batch.
    """
    depends = any(BATCH in entry[1] if entry is not None else tainted for entry in entries)
    taint = "the number of rows is used as a value" if depends else ""
    kept = entries if len(entries) <= MOST_ENTRIES else None
    return Followed(axes if axes is not None else (axis_of(len(entries)),), entries=kept, taint=taint)


def written_constant(tensor: TensorProto) -> Followed:
    """Return what is known of a constant: its shape, and its entries if it is a short list of whole numbers."""
    axes = tuple(axis_of(int(size)) for size in tensor.dims)
    raw = tensor.raw_data
    alike = bool(raw) and not raw.strip(b"\0")  # zeros: where recurrent layers begin
    if tensor.data_type not in (INT32, INT64) or prod(tensor.dims) > MOST_ENTRIES or len(axes) > 1:
        return Followed(axes, alike=alike)
    numbers = list(tensor.int64_data if tensor.data_type == INT64 else tensor.int32_data)
    if raw:
        numbers = np.frombuffer(raw, "<i8" if tensor.data_type == INT64 else "<i4").tolist()
    entries = tuple((int(number), ()) for number in numbers)
    return Followed(axes, entries=entries, alike=len(set(numbers)) == 1, bits=BITS[tensor.data_type])


def is_computed(symbol: str) -> bool:
    """Whether a symbol is the size of an axis that an operator made, as those of `GraphContext.new_axis` are."""
    return symbol.startswith("?")


def most_bits(size: tuple[int, tuple[str, ...]]) -> int:
    """Return how many bits a number may need."""
    symbols = sum(COMPUTED_BITS if is_computed(symbol) else SIZE_BITS for symbol in size[1])
    return abs(size[0]).bit_length() + symbols


def within_bits(given: Followed, bits: int) -> Followed:
    """Return what is known of a tensor without the numbers that may have been rounded or have overflowed."""
    if given.entries is None:
        return given if given.bits == bits else replace(given, bits=bits)
    kept = tuple(entry if entry is None or most_bits(entry) < bits else None for entry in given.entries)
    return replace(given, entries=kept, bits=bits)


def regarded(data: Followed, axes: Iterable[Axis]) -> Followed:
    """Return the same elements in the same order, with other axes around them."""
    return replace(data, axes=tuple(axes), permutation="" if data.permutation == "rows first" else data.permutation)


def changed(data: Followed, places: Collection[int] = ()) -> Followed:
    """Return a tensor of the same shape with other elements, each computed along these axes."""
    if data.batch in places:
        raise TaintedError("works across the rows of a batch")
    return replace(data, entries=None, permutation="", alike=False)


def combined(data: Followed, places: Collection[int], *, keep: bool) -> Followed:
    """Return the tensor with these axes combined into one number each, which are kept or removed."""
    if data.batch in places:
        raise TaintedError("combines the rows of a batch")
    axes = [() if place in places else axis for place, axis in enumerate(data.shape) if keep or place not in places]
    return rows_once(tuple(axes), data.order, data.taint)


def with_axis(data: Followed, place: int, axis: Axis) -> tuple[Axis, ...]:
    """Return the axes of a tensor with another one at this place."""
    return (*data.shape[:place], axis, *data.shape[place + 1 :])


def axed(given: Followed | None) -> Followed:
    """Return a tensor whose rank is known, or say that it is not."""
    if given is not None and given.axes is None and given.taint:
        raise PassedOnError(given.taint)
    if given is None or given.axes is None:
        raise TaintedError("reads a tensor of unknown shape")
    return given


def place_of(axis: int, rank: int) -> int:
    """Return the place of an axis, which may be counted from the end."""
    place = axis + rank if axis < 0 else axis
    if not 0 <= place < max(rank, 1):
        raise TaintedError("names an axis that is not there")
    return place


def single_entry(given: Followed | None) -> Size:
    """Return the number of a tensor that holds one, None if it is not known."""
    return given.entries[0] if given is not None and given.entries is not None and len(given.entries) == 1 else None


def known_numbers(given: Followed | None, problem: str) -> list[int]:
    """Return the numbers of a tensor, or say that they are computed."""
    if given is None or given.entries is None or any(entry is None or entry[1] for entry in given.entries):
        raise TaintedError(f"works {problem}")
    return [entry[0] for entry in given.entries if entry is not None]


def has_rows(given: Followed | None) -> bool:
    """Return whether a tensor has a batch axis."""
    return given is not None and given.batch is not None


def first_taint(inputs: Iterable[Followed | None]) -> str:
    """Return the taint of the first of these tensors that has one."""
    return next((each.taint for each in inputs if each is not None and each.taint), "")


def common_order(inputs: Iterable[Followed | None]) -> str | None:
    """Return the common order of rows, or say that there are several."""
    orders = {each.order for each in inputs if each is not None and each.order is not None and has_rows(each)}
    if len(orders) > 1:
        raise TaintedError("joins rows in different orders")
    return next(iter(orders), None)


def inverse_of(permutation: str) -> str:
    """Return the name of the inverse of a permutation."""
    back = "back from "
    return permutation.removeprefix(back) if permutation.startswith(back) else back + permutation


def reordered(order: str, permutation: str) -> str:
    """Return the order of rows after a permutation; only one at a time is followed."""
    if permutation == "rows":
        return order
    if order == "":
        return permutation
    if order == inverse_of(permutation):
        return ""
    raise TaintedError("sorts rows that are sorted already")


def computed_entries(operator: str, given: Sequence[Followed]) -> tuple[Size, ...] | None:
    """Return the entries of what arithmetic makes of short lists of whole numbers."""
    lists = [each.entries for each in given if each.entries is not None and each.rank <= 1]
    count = max(map(len, lists), default=0)
    if (
        operator not in SIZE_ARITHMETIC
        or not lists
        or len(lists) < len(given)
        or any(len(each) not in (1, count) for each in lists)
    ):
        return None
    wide = [each * (count if len(each) == 1 else 1) for each in lists]
    # The result of Where may be known although one of the alternatives is not.
    needed = 1 if operator == "Where" else None
    return tuple(
        None if None in entries[:needed] else SIZE_ARITHMETIC[operator](*entries) for entries in zip(*wide, strict=True)
    )


def _plus(one: Any, other: Any) -> Size:
    total = one[0] + other[0]
    if one[1] != other[1] and one[0] and other[0]:
        return None
    return (total, one[1] if one[0] else other[1]) if total else ZERO


def _equal(one: Any, other: Any) -> Size:
    if one == other:
        return ONE
    # A size is not negative, so it differs from a negative number.
    apart = one[0] * other[0] < 0 and not (one[1] and other[1])
    return ZERO if apart or (not one[1] and not other[1]) else None


SIZE_ARITHMETIC: dict[str, Callable[..., Size]] = {
    "Add": _plus,
    "Sub": lambda one, other: _plus(one, (-other[0], other[1])),
    "Mul": lambda one, other: product_of([one, other]),
    # A size that is computed may be 0.
    "Div": lambda one, other: None if any(map(is_computed, other[1])) else quotient_of(one, other),
    "Equal": _equal,
    "Mod": lambda one, other: None if one[1] or other[1] or one[0] < 0 or other[0] <= 0 else (one[0] % other[0], ()),
    "Where": lambda test, one, other: None if test[1] else one if test[0] else other,
}
