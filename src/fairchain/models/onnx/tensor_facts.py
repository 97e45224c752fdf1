"""Known facts about a tensor before a network runs: its shape, its integers, and whether its rows are independent.

A shape is stored as factors, so that a reshape that merges the batch with other axes and splits it again is supported.
Sizes are products of numbers and names. A tensor is *tainted* as soon as it may depend on more than its own row.
`operator_rules` derives the facts for each operator's output, and `row_independence` applies them to a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from onnx import TensorProto

BATCH = "the batch"
# A factor of a size: a number, the batch, or another unknown size that does not depend on the batch.
Factor = int | str
# The factors of an axis, the slowest first; none for an axis of size 1.
Axis = tuple[Factor, ...]
# An entry of an integer tensor: a number times unknown sizes; None if unknown.
Size = tuple[int, tuple[str, ...]] | None
ZERO, ONE = (0, ()), (1, ())
# Largest number of entries of an integer tensor that are traced one by one; a shape has fewer.
MOST_ENTRIES = 64
TOO_LARGE_SIZE = 2**31 - 1
# ONNX codes of types: integers, and floating-point types that can represent them.
INT32, INT64 = 6, 7
# Number of bits of an integer that each type represents: int32, int64, float and double.
BITS = {INT32: 31, INT64: 63, 1: 24, 11: 53}
# Bits of the largest size: of the batch and of the axes of inputs, and of a computed axis.
SIZE_BITS, COMPUTED_BITS = 20, 31


class Followed(Struct, frozen=True):
    """The known facts about a tensor.

    Parameters
    ----------
    axes
        Its shape in factors; None if its rank is unknown, in which case it has no batch axis.
    entries
        Its entries if it is a short list of integers.
    taint
        Why it may depend on more than its own row; "" if it cannot.
    order
        The order of its rows: "" as in the inputs, or the name of a permutation; None if all rows are equal.
    permutation
        The name of the permutation that it contains, if any.
    alike
        Whether all of its elements are the same number.
    bits
        Bits of its largest integers, and of those from which they were computed.
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
        """The axes of a tensor of known rank."""
        return self.axes or ()

    @property
    def batch(self) -> int | None:
        """The axis with the rows, if any."""
        return next((place for place, axis in enumerate(self.shape) if BATCH in axis), None)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def regarded(self, axes: Iterable[Axis]) -> Followed:
        """Return the same elements in the same order, with other axes."""
        return replace(self, axes=tuple(axes), permutation="" if self.permutation == "rows first" else self.permutation)

    def changed(self, places: Collection[int] = ()) -> Followed:
        """Return a tensor of the same shape with other elements, each computed along these axes."""
        if self.batch in places:
            raise TaintedError("works across the rows of a batch")
        return replace(self, entries=None, permutation="", alike=False)

    def combined(self, places: Collection[int], *, keep: bool) -> Followed:
        """Return the tensor with these axes combined into one number each, which are kept or removed."""
        if self.batch in places:
            raise TaintedError("combines the rows of a batch")
        axes = [() if place in places else axis for place, axis in enumerate(self.shape) if keep or place not in places]
        return rows_once(axes, self.order, self.taint)

    def with_axis(self, place: int, axis: Axis) -> tuple[Axis, ...]:
        """Return the axes with another one at this index."""
        return (*self.shape[:place], axis, *self.shape[place + 1 :])

    def within_bits(self, bits: int) -> Followed:
        """Return the facts without the numbers that may have been rounded or have overflowed."""
        if self.entries is None:
            return self if self.bits == bits else replace(self, bits=bits)
        kept = tuple(entry if entry is None or most_bits(entry) < bits else None for entry in self.entries)
        return replace(self, entries=kept, bits=bits)


class TaintedError(Exception):
    """Raised by the rule of an operator with the reason why its output is tainted."""


class PassedOnError(TaintedError):
    """Raised with the reason why a tensor whose facts an operator needs is already tainted."""


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
    """Return the product of sizes, None if one is unknown."""
    number, symbols = 1, list[str]()
    for size in sizes:
        if size is None:
            return None
        number *= size[0]
        symbols += size[1]
    return number, tuple(sorted(symbols))


def quotient_of(whole: Size, part: Size) -> Size:
    """Return the size that times `part` is `whole`; None if it is not known to exist."""
    if whole is None or part is None or not part[0] or whole[0] % part[0]:
        return None
    left = Counter(whole[1])
    left.subtract(part[1])
    if any(count < 0 for count in left.values()):
        return None
    return whole[0] // part[0], tuple(sorted(left.elements()))


def split_factors(factors: Sequence[Factor], sizes: Sequence[Size], batch: int | None) -> list[Axis]:
    """Return the factors of each of these sizes, in order, as far as they can be determined."""
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


def rows_once(axes: Iterable[Axis], order: str | None, taint: str, *, alike: bool = False) -> Followed:
    """Return the facts about a tensor with rows along at most one axis."""
    axes = tuple(axes)
    if sum(axis.count(BATCH) for axis in axes) > 1:
        raise TaintedError("compares the rows of a batch with each other")
    return Followed(axes, taint=taint, order=order, alike=alike)


def whole_numbers(entries: Iterable[Size], taint: str, axes: tuple[Axis, ...] | None = None) -> Followed:
    """Return the facts about an integer tensor, which is tainted if one of its entries depends on the batch.

    If the operator has a tainted input, with this `taint`, then an unknown number may depend on the batch.
    """
    entries = tuple(entries)
    depends = any(BATCH in entry[1] if entry is not None else bool(taint) for entry in entries)
    taint = "the number of rows is used as a value" if depends else ""
    kept = entries if len(entries) <= MOST_ENTRIES else None
    return Followed(axes if axes is not None else (axis_of(len(entries)),), entries=kept, taint=taint)


def written_constant(tensor: TensorProto) -> Followed:
    """Return the facts about a constant: its shape, and its entries if it is a short list of integers."""
    axes = tuple(axis_of(int(size)) for size in tensor.dims)
    raw = tensor.raw_data
    alike = bool(raw) and not raw.strip(b"\0")  # zeros: the initial states of recurrent layers
    if tensor.data_type not in (INT32, INT64) or prod(tensor.dims) > MOST_ENTRIES or len(axes) > 1:
        return Followed(axes, alike=alike)
    numbers = list(tensor.int64_data if tensor.data_type == INT64 else tensor.int32_data)
    if raw:
        numbers = np.frombuffer(raw, "<i8" if tensor.data_type == INT64 else "<i4").tolist()
    entries = tuple((int(number), ()) for number in numbers)
    return Followed(axes, entries=entries, alike=len(set(numbers)) == 1, bits=BITS[tensor.data_type])


def is_computed(symbol: str) -> bool:
    """Return whether a symbol is the size of a computed axis, like those of `Operator.new`."""
    return symbol.startswith("?")


def most_bits(size: tuple[int, tuple[str, ...]]) -> int:
    """Return the largest number of bits of a number."""
    symbols = sum(COMPUTED_BITS if is_computed(symbol) else SIZE_BITS for symbol in size[1])
    return abs(size[0]).bit_length() + symbols


def axed(given: Followed | None) -> Followed:
    """Return a tensor whose rank is known, or raise an error."""
    if given is not None and given.axes is None and given.taint:
        raise PassedOnError(given.taint)
    if given is None or given.axes is None:
        raise TaintedError("reads a tensor of unknown shape")
    return given


def place_of(axis: int, rank: int) -> int:
    """Return the index of an axis, which may be counted from the end."""
    place = axis + rank if axis < 0 else axis
    if not 0 <= place < max(rank, 1):
        raise TaintedError("names an axis that is not there")
    return place


def single_entry(given: Followed | None) -> Size:
    """Return the number of a tensor with one element, None if unknown."""
    return given.entries[0] if given is not None and given.entries is not None and len(given.entries) == 1 else None


def known_numbers(given: Followed | None, problem: str) -> list[int]:
    """Return the numbers of a tensor, or raise an error if they are computed."""
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
    """Return the common order of rows, or raise an error if there are several."""
    orders = {each.order for each in inputs if each is not None and each.order is not None and has_rows(each)}
    if len(orders) > 1:
        raise TaintedError("joins rows in different orders")
    return next(iter(orders), None)


class Operator(Struct, frozen=True):
    """An operator for its rule: type, known facts about its inputs, number of outputs, attributes.

    `batch` is the network's fixed batch size, if any, `opset` the version of its operators, and `unused` counts axes of
    unknown size.
    """

    kind: str
    inputs: list[Followed | None]
    outputs: int
    attributes: dict[str, Any]
    batch: int | None
    opset: int
    unused: Iterator[int]

    @property
    def data(self) -> Followed:
        """The first input, whose rank must be known."""
        return axed(self.inputs[0])

    def optional(self, place: int) -> Followed | None:
        """Return an input that may be missing."""
        return self.inputs[place] if place < len(self.inputs) else None

    def number(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        found = self.attributes.get(name)
        return int(found.i) if found is not None else default

    def text(self, name: str, default: bytes = b"") -> bytes:
        """Return a text attribute."""
        found = self.attributes.get(name)
        return bytes(found.s) if found is not None else default

    def numbers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers."""
        found = self.attributes.get(name)
        return [int(each) for each in found.ints] if found is not None else None

    def listed(self, name: str, place: int) -> list[int] | None:
        """Return numbers from an attribute or, in newer versions, from an input, with -1 for an unknown one."""
        given, entries = self.numbers(name), getattr(self.optional(place), "entries", None)
        if given is None and entries is not None:
            given = [entry[0] if entry and not entry[1] else -1 for entry in entries]
        return given

    def axes(self) -> list[int] | None:
        """Return the axes in the attribute or, in newer versions, in the second input; None for all."""
        given = self.numbers("axes")
        if given is None and self.optional(1) is not None:
            given = known_numbers(self.inputs[1], "with axes that are computed")
        return given

    def axis(self, default: int) -> int:
        """Return the index of the axis in the attribute among those of the first input."""
        return place_of(self.number("axis", default), self.data.rank)

    def size(self, axis: Axis) -> Size:
        """Return the size of an axis; a fixed batch is a number."""
        return size_of(axis, self.batch)

    def sizes(self) -> tuple[Size, ...]:
        """Return the shape of the first input; a size computed from tainted numbers may depend on the batch itself."""
        sizes = map(self.size, self.data.shape)
        return tuple(None if self.data.taint and size and any(map(is_computed, size[1])) else size for size in sizes)

    def new(self, size: Size = None) -> Axis:
        """Return the axis of this size; if it is unknown, a new one that is unrelated to the batch."""
        return factors_of(size) if size is not None else (f"?{next(self.unused)}",)

    @property
    def taint(self) -> str:
        """The taint of the first tainted input."""
        return first_taint(self.inputs)

    def made(self, axes: Iterable[Axis]) -> Followed:
        """Return a tensor with these axes, with the order of rows and the taint of all inputs."""
        return rows_once(axes, common_order(self.inputs), self.taint)

    def one_axis(self, axes: Iterable[Axis]) -> Axis:
        """Return the result of these axes when tensors are broadcast against each other."""
        wide = list(dict.fromkeys(axis for axis in axes if axis))
        if len(wide) < 2:
            return wide[0] if wide else ()
        if any(BATCH in axis for axis in wide):
            raise TaintedError("joins rows and values that are not rows along one axis")
        # An unknown size next to a number above 1 must be equal to it, or is broadcast to it.
        return next((axis for axis in wide if not any(isinstance(factor, str) for factor in axis)), self.new())

    def joined(self, given: Sequence[Followed]) -> Followed:
        """Return the shape and order of tensors that are broadcast against each other."""
        if any(each.axes is None for each in given):
            if any(map(has_rows, given)) and not first_taint(given):
                raise TaintedError("joins rows with a tensor of unknown shape")
            return Followed(None, taint=first_taint(given))
        axes = []
        for place in range(-max((each.rank for each in given), default=0), 0):
            here = [each for each in given if -place <= each.rank]
            if any(BATCH in each.shape[place] for each in here):
                # A tensor of one number applies to every row, even if it is written for a fixed number of rows.
                here = [each for each in here if not each.alike or BATCH in each.shape[place]]
            axes.append(self.one_axis(each.shape[place] for each in here))
        return rows_once(axes, common_order(given), first_taint(given), alike=all(each.alike for each in given))
