"""Text classifiers of Hugging Face transformers: a pipeline, a model and its tokenizer, a folder of `save_pretrained`.

The model's own tokenizer makes its inputs, with its special tokens, token types and truncation. Texts of similar length
are evaluated together, in batches whose activations fit into memory. A folder is untrusted: weights are read only from
safetensors, no code of the folder is run, and nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import listed, shown
from fairchain.models.adapters.converting import quiet
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.adapters.onnx_graph import plain_bytes
from fairchain.models.base import random_inputs
from fairchain.models.onnx.file_checks import Limits, parse_network, read_network
from fairchain.models.onnx.session import OnnxModel
from fairchain.models.onnx.token_inputs import (
    BATCH_TEXTS,
    MOST_ELSEWHERE,
    MOST_TOKENS,
    TOKENIZER,
    TOKENIZER_FILES,
    UNNAMED,
    Tokens,
    add_tokenizer,
    tokenizer_of,
)
from fairchain.spec import Spec
from fairchain.system.user_code import user_code
from fairchain.tables import TableRows

# Files of a folder that are read, and the limits of their settings.
SETTINGS = (*TOKENIZER_FILES, "model.safetensors.index.json")
NETWORK, WEIGHT_FILES = "model.onnx", "*.safetensors"
MOST_FOLDER_BYTES, MOST_SETTINGS = 8_000_000_000, 200_000_000
MOST_LAYERS = 1000
TRANSFORMERS_MISSING = "transformers and torch are not installed: pip install 'fairchain[transformers]'"


# Options of a pipeline that a tokenizer's own settings can state.
KNOWN_OPTIONS = {"truncation", "padding", "max_length", "return_tensors", "return_all_scores", "top_k"}
# Approximate number of texts for which an ONNX network must decide like its model, and the batch and length of the test
# texts.
TRIED_TEXTS, EXAMPLE = 256, (3, 7)
TOKENIZER_NEEDED = "{name}: reads tokens, and only its tokenizer makes them; give (model, tokenizer)"
TRAINING_MODE = "{name}: is in training mode; call model.eval() first"
NAME_OWN_LABELS = "{name}: model.labels: the model has the labels {labels}; name these in [model]"
LABELS_APART = (
    '{name}: decides about each of {labels} separately; name one of them, output = "{first}" in [model], with two '
    "labels: the text does not have it, or has it"
)
WEIGHTS_LACKING = (
    "{path}: its files have no weights for {lacking}, which would be random; save the fine-tuned classifier ({saved} "
    "was saved)"
)
NO_SAFETENSORS = (
    "{path}: has no weights in safetensors, and other formats can run code; save it again with "
    "model.save_pretrained(folder)"
)
NOT_EXPORTED = "{name}: cannot be exported to ONNX: {reason}"
FOLDER_NEEDS_NO_EXPORT = (
    ". A folder has a certificate without an export: save the model and its tokenizer with "
    'save_pretrained("folder"), and give the folder'
)
ROUNDING_NOTE = (
    "Scores of a transformer depend on the batch in their last digits: a text with tied scores may be decided "
    "differently in another batch."
)
COPY = (
    "A copy of the model in ONNX was evaluated, which decides as the model does about {count:,} texts that were tried."
)


@dataclass(frozen=True, eq=False)
class Transformer:
    """A sequence classifier with its tokenizer; `sha256` is the hash of the files that were read, "" for objects."""

    model: Any
    tokens: Tokens
    name: str
    sha256: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's names of the columns of its output."""
        config = self.model.config
        return tuple(str(config.id2label[place]) for place in range(int(config.num_labels)))

    def logits(self, texts: list[str]) -> NDArray[np.float64]:
        """Return the output for texts, (texts, labels); texts of similar length are evaluated together."""
        torch: Any = import_module("torch")
        model, tokens = self.model, self.tokens
        encoded = tokens.encode(texts)
        most = BATCH_TEXTS if model.device.type == "cpu" else MOST_ELSEWHERE
        lengths = np.array([len(ids) for ids in encoded["input_ids"]])
        found: NDArray[np.float64] | None = None
        order = np.argsort(lengths, kind="stable")
        with torch.inference_mode():
            start = 0
            while start < len(order):
                part = order[start : start + tokens.at_once(int(lengths[order[start]]), most)]
                # The last one is the longest.
                part = part[: tokens.at_once(int(lengths[part[-1]]), most)]
                start += len(part)
                inputs = {
                    name: torch.from_numpy(tokens.padded([values[place] for place in part], name)).to(model.device)
                    for name, values in encoded.items()
                }
                logits = model(**inputs).logits.float().cpu().numpy().astype(np.float64)
                found = np.empty((len(texts), logits.shape[1])) if found is None else found
                found[part] = logits
        assert found is not None
        return found


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
    """Return whether a folder contains a model as `save_pretrained` writes it."""
    return path.is_dir() and (path / "config.json").is_file()


def model_and_tokenizer(source: Any) -> Transformer:
    """Return the model and tokenizer of an object; raise a ModelError for one that is not a text classifier."""
    if isinstance(source, Transformer):
        return source
    library: Any = sys.modules["transformers"]
    name = type(source).__name__
    options: dict[str, Any] = {}
    if isinstance(source, library.PreTrainedModel):
        raise ModelError(TOKENIZER_NEEDED.format(name=name))
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
        raise ModelError(TRAINING_MODE.format(name=type(model).__name__))
    return Transformer(model, Tokens(tokenizer, model.config.to_dict(), options), type(model).__name__, "")


def read_folder(path: Path) -> Transformer | bytes:
    """Read a folder of `save_pretrained`: settings, a tokenizer and weights in safetensors, and no code.

    A folder with a network in ONNX instead of the weights becomes one network with its tokenizer inside, in bytes.
    """
    if (path / NETWORK).is_file() and not any(path.glob(WEIGHT_FILES)):
        _checked(path, weights=False)
        network = read_network(path / NETWORK, Limits()).copy()
        add_tokenizer(network, _files(path))
        return bytes(network.SerializeToString(deterministic=True))
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise ModelError(f"{path}: {TRANSFORMERS_MISSING}")
    config = _checked(path)
    library, torch = import_module("transformers"), import_module("torch")
    places: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with user_code(str(path), "cannot be loaded by transformers:"):
        settings = library.AutoConfig.from_pretrained(path, **places)
        with torch.device("meta"):
            empty = library.AutoModelForSequenceClassification.from_config(settings)
    weights = sum(file.stat().st_size for file in path.glob(WEIGHT_FILES))
    if sum(each.numel() for each in empty.state_dict().values()) > 2 * weights:
        raise ModelError(f"{path}: config.json describes a larger network than its weights are; save it again")
    logging = library.utils.logging
    with user_code(str(path), "cannot be loaded by transformers:"), ExitStack() as stack:
        if logging.is_progress_bar_enabled():
            logging.disable_progress_bar()
            stack.callback(logging.enable_progress_bar)
        model, found = library.AutoModelForSequenceClassification.from_pretrained(
            path, use_safetensors=True, output_loading_info=True, **places
        )
    if lacking := sorted(found["missing_keys"]):
        saved = config.get("architectures") or "no architecture"
        raise ModelError(WEIGHTS_LACKING.format(path=path, lacking=listed(lacking), saved=saved))
    return Transformer(model.eval(), tokenizer_of(tuple(_files(path).items())), str(path), _digest(path))


def _files(path: Path) -> dict[str, bytes]:
    """Return the files of a folder from which its tokenizer is read."""
    return {name: (path / name).read_bytes() for name in TOKENIZER_FILES if (path / name).is_file()}


def _checked(path: Path, *, weights: bool = True) -> dict[str, Any]:
    """Return the settings of a folder; refuse code, pickles, and settings beyond the limits."""
    held = sorted(path.glob(WEIGHT_FILES))
    if weights and not held:
        raise ModelError(NO_SAFETENSORS.format(path=path))
    if not (path / "tokenizer.json").is_file():
        raise ModelError(f"{path}: has no tokenizer.json; save it too: tokenizer.save_pretrained(folder)")
    if (path / "adapter_config.json").exists():
        raise ModelError(f"{path}: has an adapter beside its weights; merge it into them, and save the model again")
    sizes = {file: file.stat().st_size for file in (*held, *_settings(path))}
    if sum(sizes.values()) > MOST_FOLDER_BYTES or any(sizes[file] > MOST_SETTINGS for file in _settings(path)):
        raise ModelError(f"{path}: its files are larger than {MOST_FOLDER_BYTES:,} bytes; give a smaller model")
    try:
        config: Any = json.loads((path / "config.json").read_bytes())
        stated = path / "tokenizer_config.json"
        tokens: Any = json.loads(stated.read_bytes() if stated.is_file() else b"{}")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: its settings are not valid JSON ({error}); save it again") from None
    for name, settings in (("config.json", config), ("tokenizer_config.json", tokens)):
        if not isinstance(settings, dict):
            raise ModelError(f"{path}: {name} is not an object; save it again")
        if "auto_map" in settings:
            raise ModelError(
                f"{path}: {name} requires its own code (auto_map), which is never run; load it yourself in Python "
                "and give (model, tokenizer)"
            )
    for key, value in config.items():
        most = MOST_LAYERS if "layer" in key else MOST_TOKENS
        if isinstance(value, int) and not isinstance(value, bool) and value > most:
            raise ModelError(f"{path}: config.json: {shown(str(key))} is {value:,}, above {most:,}")
    checked: dict[str, Any] = config
    return checked


def _settings(path: Path) -> list[Path]:
    return [path / name for name in SETTINGS if (path / name).is_file()]


def _digest(path: Path) -> str:
    """Return the hash of all files that affect the decision about a text, with their names."""
    digest = hashlib.sha256()
    for file in sorted([*_settings(path), *path.glob(WEIGHT_FILES)]):
        with file.open("rb") as content:
            digest.update(f"{file.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


class TransformerModel(FunctionModel):
    """A transformer that decides about texts; `sha256` is that of its folder."""

    def __init__(self, source: Transformer, spec: Spec, rows: TableRows | None) -> None:
        if spec.text is None or not spec.text.raw:
            raise ModelError(
                f"{source.name}: its own tokenizer reads raw texts; name the column of the texts, text=... "
                '(--text), or give the spec a [[feature]] with kind = "text" and no vectors, vocabulary or length'
            )
        self._source, columns = source, _columns(source, spec)
        output, maker = (spec.model.output, "Sigmoid") if spec.model.output is not None else ("logits", "")
        super().__init__(
            lambda texts: columns(source.logits(texts)), spec, source.name, output=output, maker=maker, rows=rows
        )
        self.sha256 = source.sha256
        # The ONNX copy, or the reason why there is none.
        self._network: OnnxModel | ModelError | None = None

    @property
    def note(self) -> str:
        """A note for the caller: how texts are truncated, and that rounding may depend on the batch."""
        return " ".join(filter(None, (self._note, ROUNDING_NOTE, self._source.tokens.note)))

    @note.setter
    def note(self, text: str) -> None:
        self._note = text

    @property
    def certifiable(self) -> bool:
        """Whether it was read from a folder, which others can obtain."""
        return bool(self.sha256)

    def to_network(self, spec: Spec | None = None, rows: TableRows | None = None) -> OnnxModel:
        """Return an ONNX copy with the tokenizer inside, which decides alike about texts of the corpus.

        The copy of a folder has the hash of the folder, because results for it are stated about the folder.
        """
        if self._network is None:
            try:
                self._network = self._copied(spec or self._spec, rows)
            except ModelError as error:
                self._network = ModelError(f"{error}{'' if self.sha256 else FOLDER_NEEDS_NO_EXPORT}")
        if isinstance(self._network, ModelError):
            raise self._network
        return self._network

    def _copied(self, spec: Spec, rows: TableRows | None) -> OnnxModel:
        network = OnnxModel.from_bytes(exported(self._source, spec), f"{self.name} in ONNX", spec)
        texts = random_inputs(spec.described, TRIED_TEXTS)
        if rows is not None and len(rows.values):
            texts = rows.values[:: max(1, len(rows.values) // TRIED_TEXTS)].astype(object)
        same = self.predict(texts) == network.predict(texts)
        if not same.all():
            reason = f"the copy decides differently for {np.count_nonzero(~same):,} of {len(texts):,} texts"
            raise ModelError(NOT_EXPORTED.format(name=self.name, reason=reason))
        network.note, network.sha256 = COPY.format(count=len(texts)), self.sha256 or network.sha256
        return network


def exported(source: Transformer, spec: Spec) -> bytes:
    """Return a transformer as an ONNX network with its tokenizer inside.

    Batch and number of tokens are free. Besides the output that decides, the tensors `block1`, `block2` ... are the
    mean over the tokens of a text of the output of each attention block.
    """
    name = source.name
    stated, labels, reason = spec.model.output, source.labels, ""
    if unknown := sorted(set(source.tokens.options) - KNOWN_OPTIONS):
        reason = f"its pipeline sets {listed(unknown)}"
    elif find_spec("onnxscript") is None:
        reason = "onnxscript is not installed: pip install 'fairchain[transformers]'"
    elif stated is None and labels != tuple(spec.model.labels) and not all(each.startswith(UNNAMED) for each in labels):
        reason = f"model.labels: name them in the order of the model, {listed(labels)}"
    if reason:
        raise ModelError(NOT_EXPORTED.format(name=name, reason=reason))
    torch: Any = import_module("torch")
    column = labels.index(stated) if stated is not None else 0 if len(labels) == 1 else None
    inputs = [each for each in source.tokens.encode(["a"]) if each != "special_tokens_mask"]

    class WithBlocks(torch.nn.Module):  # type: ignore[misc]  # of a package that is imported when it is used
        def __init__(self) -> None:
            super().__init__()
            self.model = source.model

        def forward(self, *given: Any) -> Any:
            arguments = dict(zip(inputs, given, strict=True))
            found = self.model(**arguments, output_hidden_states=True, return_dict=True)
            logits = found.logits if column is None else torch.sigmoid(found.logits[:, column : column + 1])
            mask = arguments["attention_mask"][:, :, None].to(logits.dtype)
            return logits, *((state * mask).sum(1) / mask.sum(1) for state in found.hidden_states[1:])

    blocks = int(source.model.config.num_hidden_layers)
    names = [stated or "logits", *(f"block{number}" for number in range(1, blocks + 1))]
    example = tuple(torch.ones(EXAMPLE, dtype=torch.long, device=source.model.device) for _ in inputs)
    free = {place: torch.export.Dim(axis) for place, axis in enumerate(("batch", "tokens"))}
    axes = {"input_names": inputs, "output_names": names, "dynamic_shapes": (tuple(free for _ in inputs),)}
    with user_code(name, "cannot be exported to ONNX:"), quiet(), torch.inference_mode():
        made: Any = torch.onnx.export(
            WithBlocks().eval(), example, dynamo=True, external_data=False, verbose=False, **axes
        ).model_proto
    del made.graph.output[1:]
    network = parse_network(Path(name), plain_bytes(made))
    add_tokenizer(network, _saved(source))
    return bytes(network.SerializeToString(deterministic=True))


def _saved(source: Transformer) -> dict[str, bytes]:
    """Return the files of a tokenizer (an object saves them first), with the length at which texts are truncated."""
    files = dict(source.tokens.files)
    if not files:
        with TemporaryDirectory() as folder, user_code(source.name, "cannot save its tokenizer:"):
            source.model.config.save_pretrained(folder)
            source.tokens.tokenizer.save_pretrained(folder)
            files = _files(Path(folder))
        if TOKENIZER not in files:
            raise ModelError(NOT_EXPORTED.format(name=source.name, reason="its tokenizer is not a fast one"))
        if source.tokens.longest:
            settings = json.loads(files.get("tokenizer_config.json", b"{}"))
            settings["model_max_length"] = source.tokens.longest
            files["tokenizer_config.json"] = json.dumps(settings).encode()
    return files


def _columns(source: Transformer, spec: Spec) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return how the columns of the output are read: in the order of the spec's labels, or as one probability."""
    labels, wanted, stated = source.labels, spec.model.labels, spec.model.output
    if stated is not None:
        if stated not in labels:
            raise ModelError(
                f"{source.name}: model.output: unknown label {shown(stated)}; expected one of {listed(labels)}"
            )
        place = labels.index(stated)
        return lambda logits: 1 / (1 + np.exp(-logits[:, [place]]))
    if getattr(source.model.config, "problem_type", None) == "multi_label_classification":
        raise ModelError(LABELS_APART.format(name=source.name, labels=listed(labels), first=labels[0]))
    if len(labels) == 1:
        return lambda logits: 1 / (1 + np.exp(-logits))
    if set(wanted) == set(labels):
        order = [labels.index(label) for label in wanted]
        return lambda logits: logits[:, order]
    if len(wanted) == len(labels) and all(label.startswith(UNNAMED) for label in labels):
        return lambda logits: logits
    raise ModelError(NAME_OWN_LABELS.format(name=source.name, labels=listed(labels)))


def from_transformers(
    source: Any, spec: Spec, rows: TableRows | None = None, *, direct: bool = True
) -> TransformerModel | OnnxModel:
    """Return a model from a pipeline, a model with its tokenizer, or a folder that was read.

    Without `direct` an object, which has no bytes, becomes a network; a folder is unchanged.
    """
    made = TransformerModel(model_and_tokenizer(source), spec, rows)
    if direct or made.sha256:
        return made
    try:
        return made.to_network(spec, rows)
    except ModelError as error:
        made.note = str(error)
        return made
