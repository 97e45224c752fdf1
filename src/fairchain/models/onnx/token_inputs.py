"""From texts to the inputs of a transformer: its own tokenizer, with texts of the same number of tokens together.

An ONNX network contains the files of its tokenizer in its metadata, so that one file, with one hash, decides about a
text. Texts in one call have the same number of tokens: none is padded, so that no answer depends on the other texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import listed, shown
from fairchain.models.onnx.inputs import TYPES
from fairchain.system.user_code import user_code

if TYPE_CHECKING:
    from onnx import ModelProto

# The files from which a tokenizer is read, and the prefix of their names in the metadata of a network.
CONFIG, TOKENIZER = "config.json", "tokenizer.json"
TOKENIZER_FILES = (CONFIG, TOKENIZER, "tokenizer_config.json", "special_tokens_map.json")
TOKENIZER_PREFIX = "fairchain/"
MOST_TOKENIZER_BYTES, MOST_TOKENS = 200_000_000, 10_000_000
# Bytes of activations of a batch, and the number of texts above which larger batches are not faster, on a processor and
# elsewhere.
BATCH_BYTES, BATCH_TEXTS, MOST_ELSEWHERE = 32 * 2**20, 64, 256
# Number of tokens of texts that are kept between the planning of calls and the calls.
MOST_KEPT_TOKENS = 4_000_000
# Models whose first positions are reserved.
OFFSET = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet")
NO_TOKENIZER = (
    '{path}: input "{name}" is not made by its tokenizer, which makes {made} for every token; export the network again'
)
FIXED_TOKENS = '{path}: input "{name}" has shape {shape}; export the network with a free batch and a free text length'
OTHER_LABELS = "{path}: model.labels: the network's columns are {labels}; name the labels in this order in [model]"
# Prefixes of uninformative names of labels.
UNNAMED = "LABEL_"

Encoded = Mapping[str, Sequence[Sequence[int]]]


class Tokens:
    """A tokenizer with its model's special tokens, token types and truncation.

    Parameters
    ----------
    tokenizer
        A tokenizer of the package transformers.
    config
        The settings of the model, which determine the number of tokens that it reads.
    options
        The options that the pipeline passes to the tokenizer.
    files
        The files from which it was read; empty for an object.
    """

    def __init__(
        self,
        tokenizer: Any,
        config: Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.tokenizer, self.config, self.files = tokenizer, config, dict(files or {})
        self.options = {key: value for key, value in (options or {}).items() if key != "return_tensors"}
        # The largest number of tokens that the model reads; 0 if it is not limited.
        limits = [int(getattr(tokenizer, "model_max_length", 0) or 0)]
        if places := _first_number(config, "max_position_embeddings", "n_positions"):
            own = config.get("pad_token_id") if config.get("model_type") in OFFSET else -1
            limits.append(places - (own or 0) - 1)
        longest = min((limit for limit in limits if 0 < limit < MOST_TOKENS), default=0)
        self.longest = int(self.options.get("max_length") or longest)
        hidden = _first_number(config, "hidden_size", "dim", "n_embd") or 768
        inner = _first_number(config, "intermediate_size", "hidden_dim") or 4 * hidden
        # Per layer: the activations of attention and the inner layer for a token, and the scores between two tokens.
        self._token_bytes = 4 * (inner + 6 * hidden)
        self._pair_bytes = 8 * (_first_number(config, "num_attention_heads", "n_heads", "n_head") or 12)
        self._lock = threading.Lock()
        # Hashes of the texts that are longer than the model's limit.
        self.cut: set[int] = set()

    def __reduce__(self) -> Any:
        """Construct it again in another process."""
        if not self.files:
            return Tokens, (self.tokenizer, self.config, self.options)
        return tokenizer_of, (tuple(self.files.items()),)

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's names of the columns of its output."""
        names = self.config.get("id2label")
        return tuple(str(name) for _, name in sorted((int(at), name) for at, name in (names or {}).items()))

    @property
    def note(self) -> str:
        """The number of truncated texts; "" if none was."""
        if not self.cut:
            return ""
        return (
            f"{len(self.cut):,} texts are longer than the {self.longest:,} tokens that the model reads; they are "
            "cut as its tokenizer does it."
        )

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the numbers of the tokens of each text, for each input of the model."""
        options = {**self.options, "padding": False, "return_attention_mask": True}
        if self.longest:
            options |= {"truncation": True, "max_length": self.longest}
        # A tokenizer stores its truncation, so two threads must not use it at once.
        with self._lock, user_code("tokenizer"):
            encoded = self.tokenizer(list(texts), **options)
        for place, encoding in enumerate(getattr(encoded, "encodings", None) or ()):
            if encoding.overflowing:
                self.cut.add(hash(texts[place]))
        found: Encoded = dict(encoded.items())
        return found

    def padded(self, rows: Sequence[Sequence[int]], name: str) -> NDArray[np.int64]:
        """Return the numbers of some texts, padded by the tokenizer to the longest."""
        fill = {"input_ids": self.tokenizer.pad_token_id, "token_type_ids": self.tokenizer.pad_token_type_id}
        longest, left = max(map(len, rows)), self.tokenizer.padding_side == "left"
        padded = np.full((len(rows), longest), fill.get(name) or 0, np.int64)
        for row, numbers in zip(padded, rows, strict=True):
            row[longest - len(numbers) if left else 0 : longest if left else len(numbers)] = numbers
        return padded

    def at_once(self, length: int, most: int = BATCH_TEXTS) -> int:
        """Return the number of texts with this many tokens in one call."""
        each = length * self._token_bytes + length * length * self._pair_bytes
        return max(1, min(most, BATCH_BYTES // max(each, 1)))


def _first_number(config: Mapping[str, Any], *names: str) -> int:
    return next((value for name in names if isinstance(value := config.get(name), int) and value > 0), 0)


@lru_cache(maxsize=4)
def tokenizer_of(files: tuple[tuple[str, bytes], ...]) -> Tokens:
    """Return the tokenizer in these untrusted files: none of their code is run, and nothing is downloaded."""
    held = dict(files)
    if find_spec("transformers") is None:
        raise ModelError("a tokenizer: transformers is not installed: pip install 'fairchain[transformers]'")
    try:
        config, settings = (json.loads(held.get(name, b"{}")) for name in (CONFIG, "tokenizer_config.json"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the settings of a tokenizer are not valid JSON ({error}); save it again") from None
    if not isinstance(config, dict) or not isinstance(settings, dict) or "auto_map" in config or "auto_map" in settings:
        raise ModelError("the settings of a tokenizer are not an object, or require their own code; save it again")
    library = import_module("transformers")
    from tempfile import TemporaryDirectory

    # Only these files: others in a folder would change the tokenizer but not its hash.
    with TemporaryDirectory() as folder, user_code("tokenizer", "cannot be loaded by transformers:"):
        for name, content in files:
            Path(folder, name).write_bytes(content)
        tokenizer = library.AutoTokenizer.from_pretrained(
            folder, use_fast=True, local_files_only=True, trust_remote_code=False
        )
        return Tokens(tokenizer, config, None, held)


def tokens_within(path: Path, network: ModelProto) -> Tokens | None:
    """Return the tokenizer that a network contains, if any."""
    held = {
        each.key.removeprefix(TOKENIZER_PREFIX): each.value for each in network.metadata_props if _is_file(each.key)
    }
    if TOKENIZER not in held:
        return None
    if sum(map(len, held.values())) > MOST_TOKENIZER_BYTES:
        raise ModelError(f"{path}: its tokenizer has more than {MOST_TOKENIZER_BYTES:,} bytes")
    try:
        return tokenizer_of(tuple((name, held[name].encode()) for name in TOKENIZER_FILES if name in held))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _is_file(key: str) -> bool:
    return key.startswith(TOKENIZER_PREFIX) and key.removeprefix(TOKENIZER_PREFIX) in TOKENIZER_FILES


def add_tokenizer(network: ModelProto, files: Mapping[str, bytes]) -> None:
    """Write the files of a tokenizer into a network, replacing others."""
    kept = [each for each in network.metadata_props if not _is_file(each.key)]
    del network.metadata_props[:]
    network.metadata_props.extend(kept)
    for name in TOKENIZER_FILES:
        if name in files:
            network.metadata_props.add(key=TOKENIZER_PREFIX + name, value=files[name].decode())


@dataclass(frozen=True, eq=False)
class TokenFeed:
    """Conversion of texts to the inputs of a network that reads tokens: `slots` are (input, number type)."""

    tokens: Tokens
    slots: tuple[tuple[str, Any], ...]
    batch: int | None = None
    _kept: dict[str, dict[str, Sequence[int]]] = field(default_factory=dict, repr=False)

    def __call__(self, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the network's inputs for these texts, padded to the longest."""
        encoded = self._encoded(values[:, 0].tolist())
        return {
            name: self.tokens.padded([each[name] for each in encoded], name).astype(dtype, copy=False)
            for name, dtype in self.slots
        }

    @property
    def rows(self) -> int:
        """How many texts can be given to the network at once, whatever their lengths."""
        return 1

    def parts(self, values: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Return the texts that are evaluated together: those with the same number of tokens, in batches."""
        name = self.slots[0][0]
        lengths = np.array([len(each[name]) for each in self._encoded(values[:, 0].tolist())])
        found = []
        for length in np.unique(lengths).tolist():
            rows, size = np.flatnonzero(lengths == length), self.tokens.at_once(length)
            found += [rows[start : start + size] for start in range(0, len(rows), size)]
        return found

    def _encoded(self, texts: list[str]) -> list[dict[str, Sequence[int]]]:
        """Return the tokens of each text; those of the last calls are kept."""
        kept = dict.fromkeys(texts)
        # Another thread may clear them meanwhile.
        found = {text: known for text in kept if (known := self._kept.get(text)) is not None}
        if new := [text for text in kept if text not in found]:
            encoded = self.tokens.encode(new)
            made = {text: {name: encoded[name][at] for name, _ in self.slots} for at, text in enumerate(new)}
            found |= made
            if (len(self._kept) + len(made)) * max(self.tokens.longest, 1) > MOST_KEPT_TOKENS:
                self._kept.clear()
            self._kept.update(made)
        return [found[text] for text in texts]

    def shapes(self, _inputs: Sequence[Any]) -> dict[str, tuple[int | str | None, ...]]:
        """Return the shape of each input, None for the batch."""
        return {name: (None, "tokens") for name, _ in self.slots}

    @property
    def dtype(self) -> np.dtype[Any]:
        """Rows are texts."""
        return np.dtype(object)


def plan_tokens(path: Path, tokens: Tokens, inputs: Iterable[Any]) -> TokenFeed:
    """Match the tokenizer's outputs with the network's inputs, or raise a ModelError."""
    made = tokens.encode(["a"])
    slots = []
    for node in inputs:
        if node.name not in made or np.dtype(TYPES.get(node.type, object)).kind != "i":
            raise ModelError(NO_TOKENIZER.format(path=path, name=shown(node.name), made=listed(list(made))))
        if len(node.shape) != 2 or any(isinstance(size, int) for size in node.shape):
            raise ModelError(FIXED_TOKENS.format(path=path, name=shown(node.name), shape=list(node.shape)))
        slots.append((node.name, TYPES[node.type]))
    return TokenFeed(tokens, tuple(slots))


def check_label_order(path: Path, tokens: Tokens, wanted: Sequence[str]) -> None:
    """Raise a ModelError unless the spec names the labels in the order of the network's columns."""
    own = tokens.labels
    if own and not all(label.startswith(UNNAMED) for label in own) and own != tuple(wanted):
        raise ModelError(OTHER_LABELS.format(path=path, labels=listed(own)))
