"""From texts to the network's inputs: word vectors or numbers of words, their lengths or a mask, steps or rows first.

A text is a row of word ids of the lexicon: its words at the front, zeros after them. The spec states the network's
value for a zero, and at which end the padding is; its inputs are distinguished by rank and name, or by the spec.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import unknown
from fairchain.models.onnx.inputs import TYPES, chunks
from fairchain.spec import TextFeature

if TYPE_CHECKING:
    from fairchain.models.onnx.runtime import TensorInfo
    from fairchain.text import Lexicon

WordNumbers = NDArray[np.integer]
# Bytes of vectors that are computed at once, and the number of rows above which larger batches are not faster.
BUFFER_BYTES = 16 * 2**20
MOST_CALL_TEXTS = 4096
# If steps after the longest text are left out, small batches leave out more of them.
CUT_ROWS = 128
# Words of a vocabulary that are padding if the spec names none.
PADDING = ("<pad>", "[PAD]", "<PAD>", "[pad]", "")
NOT_TEXT_ROWS = 'feature "{name}": rows of shape {shape}, where a text is {length} word ids'
NOT_A_WORD_ID = 'feature "{name}": a word id that is not between 0 and {most}'
NO_WORD_INPUT = (
    '{path}: no single input for the words of "{name}", {wanted}, among {shapes}; name it: input = "..." in its '
    "[[feature]]"
)
PADDING_UNKNOWN = (
    '{path}: feature "{name}": no word of the vocabulary is known to be padding (<pad>, [PAD] or an empty line); name '
    'it: padding = "..."'
)
PADDING_NOT_IN_VOCABULARY = '{path}: feature "{name}".padding: "{padding}" is not in the vocabulary'


@dataclass(frozen=True, eq=False)
class TextFeed:
    """Conversion of rows of word ids to the inputs of `InferenceSession.run`.

    Parameters
    ----------
    feature
        The text of the spec.
    name
        The network's input for the words.
    table
        The network's input for each id, padding first: vectors (ids, width), or its own numbers of words (ids,).
    batch
        The number of rows of each call, if the network requires a fixed number.
    time_first
        Whether the network takes (steps, rows) instead of (rows, steps).
    flat
        Whether the vectors of a text are in one row.
    lengths, mask
        Inputs that state where a text ends: the number of words, or the steps that are words.
    cut
        Whether steps after the longest text of a batch are left out.
    """

    feature: TextFeature
    name: str
    table: NDArray[Any]
    batch: int | None = None
    time_first: bool = False
    flat: bool = False
    lengths: TensorInfo | None = None
    mask: TensorInfo | None = None
    cut: bool = False
    _own: threading.local = field(default_factory=threading.local, repr=False)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type of word ids."""
        return np.dtype(np.int32)

    @property
    def rows(self) -> int:
        """The number of texts in one call."""
        width = self.feature.steps * prod(self.table.shape[1:]) * self.table.itemsize
        return self.batch or max(1, min(CUT_ROWS if self.cut else MOST_CALL_TEXTS, BUFFER_BYTES // width))

    def __call__(self, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the network's inputs for these texts; the words are in memory that this thread's next call reuses."""
        name, length, most = self.feature.name, self.feature.steps, len(self.table) - 1
        if values.ndim != 2 or values.shape[1] != length:
            raise ModelError(NOT_TEXT_ROWS.format(name=name, shape=values.shape[1:], length=length))
        ids: WordNumbers = values if values.dtype.kind in "iu" else values.astype(np.int32)
        if ids.size and not (ids.min() >= 0 and ids.max() <= most):
            raise ModelError(NOT_A_WORD_ID.format(name=name, most=most))
        words = np.count_nonzero(ids, axis=1)
        if self.cut:
            ids = ids[:, : max(1, words.max(initial=0))]
        if self.feature.pad == "left":
            ids = shifted(ids, words)
        steps = ids.T if self.time_first else ids
        shape = (*steps.shape, *self.table.shape[1:])
        size = prod(shape)
        buffer = getattr(self._own, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._own.buffer = np.empty(size, self.table.dtype)
        found: NDArray[Any] = buffer[:size].reshape(shape)
        # The ids were checked: "clip" avoids a copy in numpy.
        np.take(self.table, steps, axis=0, out=found, mode="clip")
        fed = {self.name: found.reshape(len(ids), -1) if self.flat else found}
        if self.lengths is not None:
            # No framework accepts a sequence of 0 steps: a text without a known word is one step of padding.
            counted = np.maximum(words, 1).astype(TYPES[self.lengths.type])
            fed[self.lengths.name] = counted.reshape(-1, *([1] * (len(self.lengths.shape) - 1)))
        if self.mask is not None:
            fed[self.mask.name] = (steps != 0).astype(TYPES[self.mask.type])
        return fed

    def shapes(self, inputs: Sequence[Any]) -> dict[str, tuple[int | str | None, ...]]:
        """Return the shape of each of the network's inputs, None for the batch and a name for free steps."""
        shapes: dict[str, tuple[int | str | None, ...]] = {}
        for node in inputs:
            batch = 1 if self.time_first and (self.lengths is None or node.name != self.lengths.name) else 0
            sizes = [size if isinstance(size, int) else f"axis {at}" for at, size in enumerate(node.shape)]
            shapes[node.name] = tuple(None if place == batch else size for place, size in enumerate(sizes))
        return shapes

    def parts(self, values: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Return the texts that are evaluated together: few enough, and of similar length if that saves steps.

        All of them, in their order, if they are few enough.
        """
        parts = chunks(len(values), self.rows)
        if self.cut and len(parts) > 1:
            order = np.argsort(np.count_nonzero(values, axis=1), kind="stable")
            return [order[part] for part in parts]
        return parts


def shifted(ids: WordNumbers, words: NDArray[np.intp]) -> WordNumbers:
    """Return the same texts with leading padding."""
    place = np.arange(ids.shape[1]) - (ids.shape[1] - words)[:, None]
    moved: WordNumbers = np.take_along_axis(ids, np.maximum(place, 0), axis=1)
    moved[place < 0] = 0
    return moved


def plan_text(path: Path, feature: TextFeature, lexicon: Lexicon, inputs: Sequence[Any]) -> list[TextFeed]:
    """Return the possible encodings of texts as the network's inputs: rows first, or steps first.

    Running the network shows which one is right. Raises a ModelError if there is none.
    """
    for node in inputs:
        if node.type not in TYPES or node.type == "tensor(string)":
            raise ModelError(f'{path}: input "{node.name}" has type {node.type}, which no text can fill')
    main = _words_input(path, feature, inputs)
    # The inputs for lengths and mask: named by the spec, or distinguished by their rank.
    sides: dict[str, Any] = {}
    for node in inputs:
        if node is main:
            continue
        stated = {feature.lengths: "lengths", feature.mask: "mask"}.get(node.name)
        kind = stated or ("lengths" if _counts(node) else "mask" if len(node.shape) == 2 else None)
        if kind is None or kind in sides:
            raise ModelError(
                f'{path}: input "{node.name}" {list(node.shape)} is neither the words, nor their number (rows), nor '
                "a mask (rows, steps); export the network with only these inputs, or name them: input, lengths or "
                'mask = "..." in the [[feature]]'
            )
        sides[kind] = node
    table = _table_of(path, feature, lexicon, main, ends_known=bool(sides))
    flat = len(main.shape) < 1 + table.ndim
    feed = TextFeed(feature, main.name, table, flat=flat, **sides)
    step = table.shape[1:]
    layouts = {
        "batch": (None, feature.steps * prod(step)) if flat else (None, feature.steps, *step),
        "time": (feature.steps, None, *step),
    }
    # A fixed second axis is steps, unless the spec states otherwise.
    rows_first = flat or (isinstance(main.shape[1], int) and not isinstance(main.shape[0], int))
    wanted = [feature.layout] if feature.layout is not None else ["batch"] if rows_first else ["batch", "time"]

    def fit(layout: str) -> bool:
        """Return whether the declared shape admits this one; a free axis admits any size."""
        sizes = layouts[layout]
        return len(main.shape) == len(sizes) and all(
            size == want or want is None or not isinstance(size, int)
            for size, want in zip(main.shape, sizes, strict=True)
        )

    fits = [layout for layout in wanted if fit(layout)]
    if not fits:
        free = [str(size) if size is not None else "rows" for size in layouts[wanted[0]]]
        raise ModelError(
            f'{path}: input "{main.name}" has shape {list(main.shape)}, and the text "{feature.name}" gives '
            f"[{', '.join(free)}]; correct length or vectors in the [[feature]], or export the network with free axes"
        )
    batches = {"batch": main.shape[0], "time": main.shape[1]}
    fixed = {layout: size if isinstance(size, int) else None for layout, size in batches.items()}
    return [replace(feed, time_first=layout == "time", batch=fixed[layout]) for layout in fits]


def _words_input(path: Path, feature: TextFeature, inputs: Sequence[Any]) -> Any:
    """Return the input for the words: the one that the spec names, or the only possible one."""
    names = [node.name for node in inputs]
    for key in ("input", "lengths", "mask"):
        name = getattr(feature, key)
        if name is not None and name not in names:
            raise ModelError(f'{path}: feature "{feature.name}".{key}: {unknown("input", name, names)}')
    if feature.input is not None:
        return inputs[names.index(feature.input)]
    rest = [node for node in inputs if node.name not in (feature.lengths, feature.mask)]
    ranks = (3, 2) if feature.vectors is not None else (2,)
    for rank in ranks:
        found = [node for node in rest if len(node.shape) == rank]
        if len(found) > 1:
            found = [node for node in found if "mask" not in node.name.lower() and not _counts(node)]
        if len(found) == 1:
            return found[0]
    wanted = "(rows, steps, width)" if feature.vectors is not None else "(rows, steps)"
    shapes = ", ".join(f"{node.name} {list(node.shape)}" for node in inputs)
    raise ModelError(NO_WORD_INPUT.format(path=path, name=feature.name, wanted=wanted, shapes=shapes))


def _counts(node: Any) -> bool:
    """Return whether an input takes one number for each row."""
    return len(node.shape) == 1 or (len(node.shape) == 2 and node.shape[1] == 1)


def _table_of(path: Path, feature: TextFeature, lexicon: Lexicon, main: Any, *, ends_known: bool) -> NDArray[Any]:
    """Return the network's input for each id of the lexicon, the padding first; `ends_known` is whether the network
    gets the end of a text, so that it does not read the padding after it.
    """
    dtype = TYPES[main.type]
    if lexicon.table is not None:
        if not np.issubdtype(dtype, np.floating):
            raise ModelError(
                f'{path}: input "{main.name}" takes {main.type}, not vectors; give the network\'s list of words: '
                f'vocabulary = "..." instead of vectors in feature "{feature.name}"'
            )
        return lexicon.table.astype(dtype, copy=False)
    count = len(lexicon.words)
    most = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 2 ** (np.finfo(dtype).nmant + 1)
    if count - 1 > most:
        raise ModelError(f'{path}: input "{main.name}" takes {main.type}, too small for {count:,} words')
    if feature.padding is not None and feature.padding not in lexicon.numbers:
        raise ModelError(PADDING_NOT_IN_VOCABULARY.format(path=path, name=feature.name, padding=feature.padding))
    number = padding_word(feature, lexicon)
    if not number and not ends_known:
        raise ModelError(PADDING_UNKNOWN.format(path=path, name=feature.name))
    return np.concatenate([[max(number - 1, 0)], np.arange(count)]).astype(dtype)


def padding_word(feature: TextFeature, lexicon: Lexicon) -> int:
    """Return the lexicon's number of the word for padding; 0 if there is none."""
    if lexicon.table is not None:
        return 0
    words = PADDING if feature.padding is None else (feature.padding,)
    return next((lexicon.numbers[word] for word in words if word in lexicon.numbers), 0)
