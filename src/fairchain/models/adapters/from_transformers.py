"""Text classifiers of Hugging Face transformers: a pipeline, a model and its tokenizer, a folder of `save_pretrained`.

The model's own tokenizer makes its inputs: special tokens, token types and truncation are its own. Texts of like length
go through the model together, in batches whose activations fit into memory. A folder is untrusted: weights are read
from safetensors only, no code of the folder is run, and nothing is fetched.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import listed, shown
from fairchain.models.adapters.from_function import FunctionModel, values_of
from fairchain.spec import Spec
from fairchain.system.user_code import user_code
from fairchain.tables import TableRows

# Files of a folder that are read, and what they may ask for.
SETTINGS = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
MOST_BYTES, MOST_SETTINGS = 8_000_000_000, 200_000_000
MOST_LAYERS, MOST_WIDTH = 1000, 10_000_000
# Bytes of activations of a batch, and the texts beyond which more of them win nothing, on a processor and elsewhere.
BATCH_BYTES, MOST_TEXTS, MOST_ELSEWHERE = 32 * 2**20, 64, 256
# Names of labels that say nothing.
UNNAMED = "LABEL_"
MISSING = "transformers and torch are not installed: pip install 'fairchain[transformers]'"


@dataclass(frozen=True, eq=False)
class Transformer:
    """A sequence classifier with its tokenizer.

    `sha256` is of the files that it was read from, "" for objects; `options` are those that its pipeline gives the
    tokenizer.
    """

    model: Any
    tokenizer: Any
    name: str
    sha256: str
    options: dict[str, Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """What the model calls the columns of its output."""
        config = self.model.config
        return tuple(str(config.id2label[place]) for place in range(int(config.num_labels)))

    @property
    def longest(self) -> int:
        """Tokens that the model reads, at most."""
        config = self.model.config
        limits = [int(getattr(self.tokenizer, "model_max_length", 0) or 0)]
        places = getattr(config, "max_position_embeddings", None)
        if isinstance(places, int) and places > 0:
            # Of models like RoBERTa the first places are not for tokens.
            own = getattr(config, "pad_token_id", 0) if getattr(config, "model_type", "") in OFFSET else -1
            limits.append(places - (own or 0) - 1)
        found = [limit for limit in limits if 0 < limit < MOST_WIDTH]
        return min(found, default=0)


OFFSET = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet")


def is_transformer(source: object) -> bool:
    """Return whether this is a text classification pipeline, or a model with its tokenizer."""
    if isinstance(source, Transformer):
        return True
    library: Any = sys.modules.get("transformers")
    if library is None:
        return False
    if isinstance(source, tuple) and len(source) == 2:
        return isinstance(source[0], library.PreTrainedModel) and callable(source[1])
    return isinstance(source, library.Pipeline | library.PreTrainedModel)


def is_folder(path: Path) -> bool:
    """Return whether a folder holds a model as `save_pretrained` writes it."""
    return path.is_dir() and (path / "config.json").is_file()


def opened(source: Any) -> Transformer:
    """Return the model and tokenizer of an object; raise a ModelError for one that is not a text classifier."""
    if isinstance(source, Transformer):
        return source
    library: Any = sys.modules["transformers"]
    name = type(source).__name__
    options: dict[str, Any] = {}
    if isinstance(source, library.PreTrainedModel):
        raise ModelError(f"{name}: reads tokens, and only its tokenizer makes them; give (model, tokenizer)")
    if isinstance(source, library.Pipeline):
        if getattr(source, "task", "") not in ("text-classification", "sentiment-analysis"):
            raise ModelError(f"{name}: is a pipeline for {shown(str(source.task))}; give one for text-classification")
        model, tokenizer = source.model, source.tokenizer
        options = dict(getattr(source, "_preprocess_params", {}) or {})
    else:
        model, tokenizer = source
    if not str(type(model).__name__).endswith("ForSequenceClassification"):
        raise ModelError(f"{type(model).__name__}: is not a sequence classifier; give one that ends in a label")
    if model.training:
        raise ModelError(f"{type(model).__name__}: is in training mode; call model.eval() first")
    return Transformer(model, tokenizer, type(model).__name__, "", options)


def read_folder(path: Path) -> Transformer:
    """Read a folder of `save_pretrained`: settings, a tokenizer and weights in safetensors, and no code."""
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise ModelError(f"{path}: {MISSING}")
    config = _checked(path)
    library, torch = import_module("transformers"), import_module("torch")
    places: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with user_code(str(path), "cannot be loaded by transformers:"):
        settings = library.AutoConfig.from_pretrained(path, **places)
        with torch.device("meta"):
            empty = library.AutoModelForSequenceClassification.from_config(settings)
    weights = sum(file.stat().st_size for file in path.glob("*.safetensors"))
    if sum(each.numel() for each in empty.state_dict().values()) > 2 * weights:
        raise ModelError(f"{path}: config.json describes a larger network than its weights are; save it again")
    with user_code(str(path), "cannot be loaded by transformers:"), _quiet(library):
        model, found = library.AutoModelForSequenceClassification.from_pretrained(
            path, use_safetensors=True, output_loading_info=True, **places
        )
        tokenizer = library.AutoTokenizer.from_pretrained(path, use_fast=True, **places)
    if lacking := sorted(found["missing_keys"]):
        raise ModelError(
            f"{path}: its files have no weights for {listed(lacking)}, which would be random; save the fine-tuned "
            f"classifier ({config.get('architectures') or 'no architecture'} was saved)"
        )
    return Transformer(model.eval(), tokenizer, str(path), _digest(path), {})


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Keep the library's progress bars off the terminal."""
    logging = library.utils.logging
    shown_before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown_before:
            logging.enable_progress_bar()


def _checked(path: Path) -> dict[str, Any]:
    """Return the settings of a folder; refuse code, pickles, and settings beyond all limits."""
    weights = sorted(path.glob("*.safetensors"))
    if not weights:
        raise ModelError(
            f"{path}: has no weights in safetensors, and other formats can run code; save it again with "
            "model.save_pretrained(folder)"
        )
    if not (path / "tokenizer.json").is_file():
        raise ModelError(f"{path}: has no tokenizer.json; save it too: tokenizer.save_pretrained(folder)")
    sizes = {file: file.stat().st_size for file in (*weights, *_settings(path))}
    if sum(sizes.values()) > MOST_BYTES or any(sizes[file] > MOST_SETTINGS for file in _settings(path)):
        raise ModelError(f"{path}: its files are larger than {MOST_BYTES:,} bytes; give a smaller model")
    try:
        config: Any = json.loads((path / "config.json").read_bytes())
        tokens: Any = json.loads((path / "tokenizer_config.json").read_bytes() if _has(path) else b"{}")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: its settings are not valid JSON ({error}); save it again") from None
    for name, settings in (("config.json", config), ("tokenizer_config.json", tokens)):
        if not isinstance(settings, dict):
            raise ModelError(f"{path}: {name} is not an object; save it again")
        if "auto_map" in settings:
            raise ModelError(
                f"{path}: {name} asks for code of its own (auto_map), which is never run; load it yourself in Python "
                "and give (model, tokenizer)"
            )
    for key, value in config.items():
        most = MOST_LAYERS if "layer" in key else MOST_WIDTH
        if isinstance(value, int) and not isinstance(value, bool) and value > most:
            raise ModelError(f"{path}: config.json: {shown(str(key))} is {value:,}, above {most:,}")
    checked: dict[str, Any] = config
    return checked


def _has(path: Path) -> bool:
    return (path / "tokenizer_config.json").is_file()


def _settings(path: Path) -> list[Path]:
    return [path / name for name in SETTINGS if (path / name).is_file()]


def _digest(path: Path) -> str:
    """Return the hash of all files that decide about a text, by their names."""
    digest = hashlib.sha256()
    for file in sorted([*_settings(path), *path.glob("*.safetensors")]):
        with file.open("rb") as content:
            digest.update(f"{file.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


class TransformerModel(FunctionModel):
    """A transformer that decides about texts; `sha256` is that of its folder."""

    def __init__(self, source: Transformer, spec: Spec, rows: TableRows | None) -> None:
        if spec.text is None or not spec.text.raw:
            raise ModelError(
                f"{source.name}: its own tokenizer reads texts as they are; give the spec a [[feature]] with "
                'kind = "text" and no vectors, vocabulary or length'
            )
        self._reader = Reader(source, _columns(source, spec))
        output = "logits" if spec.model.output is None else spec.model.output
        maker = "Sigmoid" if spec.model.output is not None else ""
        super().__init__(self._reader, spec, source.name, output=output, maker=maker, rows=values_of(rows))
        self.sha256 = source.sha256

    @property
    def note(self) -> str:
        """What the caller should know: how texts are cut, and that rounding may depend on the batch."""
        return " ".join(filter(None, (self._note, self._reader.note)))

    @note.setter
    def note(self, text: str) -> None:
        self._note = text

    @property
    def certifiable(self) -> bool:
        """Whether it was read from a folder that others can be given."""
        return bool(self.sha256)

    def to_network(self, spec: Spec | None = None, rows: TableRows | None = None) -> Any:  # noqa: ARG002
        """Return itself if it has a folder: others run that; it is not converted to ONNX."""
        if not self.sha256:
            raise ModelError(f"{self.name}: save the model and its tokenizer with save_pretrained, and give the folder")
        return self


def _columns(source: Transformer, spec: Spec) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return how the columns of the output are read: in the order of the spec's labels, or one probability."""
    labels, wanted, stated = source.labels, spec.model.labels, spec.model.output
    if stated is not None:
        if stated not in labels:
            raise ModelError(
                f"{source.name}: model.output: there is no label {shown(stated)}; there is {listed(labels)}"
            )
        place = labels.index(stated)
        return lambda logits: 1 / (1 + np.exp(-logits[:, [place]]))
    if getattr(source.model.config, "problem_type", None) == "multi_label_classification":
        raise ModelError(
            f"{source.name}: decides about each of {listed(labels)} by itself; name one of them, "
            f'output = "{labels[0]}" in [model], with two labels: the text does not have it, or has it'
        )
    if len(labels) == 1:
        return lambda logits: 1 / (1 + np.exp(-logits))
    if set(wanted) == set(labels):
        order = [labels.index(label) for label in wanted]
        return lambda logits: logits[:, order]
    if len(wanted) == len(labels) and all(label.startswith(UNNAMED) for label in labels):
        return lambda logits: logits
    raise ModelError(f"{source.name}: model.labels: the model has the labels {listed(labels)}; name these in [model]")


class Reader:
    """Runs texts through a transformer: its own tokenizer, texts of like length together."""

    def __init__(self, source: Transformer, columns: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self._source, self._columns = source, columns
        config = source.model.config
        hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "dim", 0) or 768)
        inner = int(getattr(config, "intermediate_size", 0) or getattr(config, "hidden_dim", 0) or 4 * hidden)
        # Of a layer: what attention and the inner layer hold for a token, and the scores between two tokens.
        self._token_bytes = 4 * (inner + 6 * hidden)
        self._pair_bytes = 8 * int(getattr(config, "num_attention_heads", 0) or getattr(config, "n_heads", 0) or 12)
        self.longest = source.longest
        # Hashes of the texts that are longer than the model reads.
        self._cut: set[int] = set()

    @property
    def note(self) -> str:
        """What happens to long texts, and what rounding may do."""
        told = "Scores of a transformer depend on the batch in their last digits: a text that is tied but for them may "
        told += "be decided otherwise in another batch."
        if self._cut:
            told += f" {len(self._cut):,} texts are longer than the {self.longest:,} tokens that the model reads; they "
            told += "are cut as its tokenizer does it."
        return told

    def __call__(self, texts: list[str]) -> NDArray[np.float64]:
        """Return the answers to texts, (texts, labels)."""
        torch: Any = import_module("torch")
        model, tokenizer = self._source.model, self._source.tokenizer
        options: dict[str, Any] = {**self._source.options, "padding": False, "return_attention_mask": True}
        options.pop("return_tensors", None)
        if self.longest:
            options |= {"truncation": True, "max_length": options.get("max_length", self.longest)}
        encoded = tokenizer(list(texts), **options)
        lengths = np.array([len(ids) for ids in encoded["input_ids"]])
        for place, encoding in enumerate(getattr(encoded, "encodings", None) or ()):
            if encoding.overflowing:
                self._cut.add(hash(texts[place]))
        found: NDArray[np.float64] | None = None
        order = np.argsort(lengths, kind="stable")
        with torch.inference_mode():
            start = 0
            while start < len(order):
                part = order[start : start + self._rows(int(lengths[order[start]]))]
                # The last one is the longest.
                part = part[: self._rows(int(lengths[part[-1]]))]
                start += len(part)
                inputs = {
                    name: torch.from_numpy(self._padded([values[place] for place in part], name)).to(model.device)
                    for name, values in encoded.items()
                }
                logits = model(**inputs).logits.float().cpu().numpy().astype(np.float64)
                found = np.empty((len(texts), logits.shape[1])) if found is None else found
                found[part] = logits
        assert found is not None
        return self._columns(found)

    def _padded(self, rows: list[list[int]], name: str) -> NDArray[np.int64]:
        """Return the numbers of some texts, all as long as the longest, as the tokenizer fills them up."""
        tokenizer = self._source.tokenizer
        fill = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}.get(name, 0)
        longest = max(map(len, rows))
        padded = np.full((len(rows), longest), fill or 0, np.int64)
        left = tokenizer.padding_side == "left"
        for row, numbers in zip(padded, rows, strict=True):
            row[longest - len(numbers) if left else 0 : longest if left else len(numbers)] = numbers
        return padded

    def _rows(self, length: int) -> int:
        """Return how many texts of so many tokens go through the model at once."""
        each = length * self._token_bytes + length * length * self._pair_bytes
        most = MOST_TEXTS if self._source.model.device.type == "cpu" else MOST_ELSEWHERE
        return max(1, min(most, BATCH_BYTES // max(each, 1)))


def from_transformers(source: Any, spec: Spec, rows: TableRows | None = None) -> TransformerModel:
    """Return a model from a pipeline, a model with its tokenizer, or a folder that was read."""
    return TransformerModel(opened(source), spec, rows)
