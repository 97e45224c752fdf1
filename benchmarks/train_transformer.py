"""Trains the small transformer that reads comments, and saves it as `save_pretrained` does and as it is shipped.

    python -m benchmarks.train_transformer FOLDER [--ship]

Two layers of attention over a WordPiece vocabulary of its own (`benchmarks.train_vocabulary`). FOLDER gets weights in
safetensors, settings and tokenizer, and `--ship` writes the same model as one ONNX file with the tokenizer inside among
the embedded networks. Needs the `torch` and `transformers` extras and the data set toxicity, which it fetches. Takes
some minutes on one core; a second training with the same packages gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from benchmarks.train_text import Answers
from benchmarks.train_text_card import Score
from benchmarks.train_vocabulary import vocabulary_of
from fairchain import to_onnx
from fairchain.datasets import get_all
from fairchain.examples import example
from fairchain.spec import load_spec

SEED = 0
# Whole words, beginnings and other pieces of words; tokens that are read.
WORDS, PIECES, TOKENS = 2000, (200, 400), 64
WIDTH, LAYERS, HEADS = 32, 2, 4
BATCH, RATE, EPOCHS = 64, 2e-3, 3
LABELS = ("fine", "toxic")
# Tensors with more numbers than these are shipped in half precision.
HALVED = 10_000
DOC = (
    "Is a comment toxic? A transformer of two layers with its own tokenizer, trained on Wikipedia talk page comments "
    "(text CC BY-SA 3.0, annotations CC0 1.0). It exists to be examined."
)
# The tokens of each comment, by its row.
Ids = dict[int, list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to save the model")
    parser.add_argument("--ship", action="store_true", help="write it into the package too")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    # Sums of several threads are not the same in every run.
    torch.set_num_threads(1)
    texts, labels, splits = read()
    fitted, held_out = (np.flatnonzero(splits == split) for split in ("train", "test"))
    tokenizer = tokenizer_of([texts[row] for row in fitted])
    used = [*fitted.tolist(), *held_out.tolist()]
    ids = dict(zip(used, (each.ids for each in tokenizer.encode_batch([texts[row] for row in used])), strict=True))
    model = train(ids, labels, fitted, tokenizer.get_vocab_size(), options.epochs)
    save(model, tokenizer, options.folder)
    score = Answers(logits_of(model, ids, held_out), labels[held_out]).score
    print(
        f"test: accuracy {score.accuracy:.4f}, area under the curve {score.auc:.4f}, toxic comments found "
        f"{score.caught:.4f}, of {score.rows:,}"
    )
    if options.ship:
        ship(options.folder, example("transformer"), score)


def read() -> tuple[list[str], NDArray[np.int64], NDArray[np.str_]]:
    """Return the comments, whether each is toxic, and the split of each."""
    (table,) = get_all(["toxicity"], progress=print)["toxicity"]
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = np.array([row["toxic"] == "toxic" for row in rows], np.int64)
    return [row["comment"] for row in rows], labels, np.array([row["split"] for row in rows])


def tokenizer_of(texts: list[str]) -> Any:
    """Return a WordPiece tokenizer with the vocabulary of these texts, that ends after `TOKENS` tokens."""
    numbers = {token: number for number, token in enumerate(vocabulary_of(texts, WORDS, PIECES))}
    tokenizer = import_module("tokenizers").BertWordPieceTokenizer(vocab=numbers, lowercase=True)
    tokenizer.enable_truncation(TOKENS)
    return tokenizer


def batches(ids: Ids, rows: NDArray[np.int64], size: int) -> Iterator[tuple[NDArray[np.int64], Any, Any]]:
    """Yield rows of like length with their tokens and masks."""
    order = rows[np.argsort([len(ids[row]) for row in rows], kind="stable")]
    for start in range(0, len(order), size):
        part = order[start : start + size]
        longest = max(len(ids[row]) for row in part)
        tokens = torch.zeros((len(part), longest), dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for place, row in enumerate(part):
            tokens[place, : len(ids[row])] = torch.tensor(ids[row])
            mask[place, : len(ids[row])] = 1
        yield part, tokens, mask


def train(ids: Ids, labels: NDArray[np.int64], rows: NDArray[np.int64], words: int, epochs: int) -> Any:
    """Fit on these rows, for a fixed number of epochs; embeddings are rounded to half precision at the end."""
    library = import_module("transformers")
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    config = library.BertConfig(
        vocab_size=words,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=TOKENS,
        id2label=dict(enumerate(LABELS)),
        label2id={label: place for place, label in enumerate(LABELS)},
    )
    model = library.BertForSequenceClassification(config)
    model.train()
    parts = list(batches(ids, rows, BATCH))
    steps = epochs * len(parts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    for epoch in range(epochs):
        losses = []
        for place in rng.permutation(len(parts)):
            part, tokens, mask = parts[place]
            target = torch.from_numpy(labels[part])
            loss = model(input_ids=tokens, attention_mask=mask, labels=target).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
    model.eval()
    embeddings = model.get_input_embeddings().weight
    embeddings.data = embeddings.data.half().float()
    return model


def logits_of(model: Any, ids: Ids, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the logits of these rows."""
    found: dict[int, NDArray[np.float32]] = {}
    with torch.inference_mode():
        for part, tokens, mask in batches(ids, rows, 256):
            logits = model(input_ids=tokens, attention_mask=mask).logits.numpy()
            found |= dict(zip(part.tolist(), logits, strict=True))
    return np.array([found[row] for row in rows.tolist()])


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save the model and its tokenizer so that transformers loads both."""
    library = import_module("transformers")
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    fast = library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer._tokenizer, model_max_length=TOKENS, mask_token="[MASK]", **special
    )
    fast.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    print(f"{folder}: {config['model_type']}, {sum(file.stat().st_size for file in folder.iterdir()):,} bytes")


def ship(folder: Path, spec: Path, score: Score) -> None:
    """Write the model of a folder as the network of an embedded spec, with its embeddings in half precision."""
    question = load_spec(spec)
    network = onnx.load_from_string(to_onnx(folder, question))
    network.doc_string = DOC
    facts = {
        "seed": str(SEED),
        "tokens": str(TOKENS),
        "held-out accuracy": f"{score.accuracy:.4f}",
        "held-out area under the curve": f"{score.auc:.4f}",
        "held-out comments": str(score.rows),
    }
    for key, value in facts.items():
        network.metadata_props.add(key=key, value=value)
    graph, single = network.graph, onnx.TensorProto.FLOAT
    # A tensor of single precision, of which only the type is read.
    like = next(each.name for each in graph.initializer if each.data_type == single and each.dims == [WIDTH])
    for tensor in graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.size > HALVED:
            name = tensor.name
            tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
            graph.node.insert(0, onnx.helper.make_node("CastLike", [tensor.name, like], [name]))
    target = Path(str(question.model.path))
    target.write_bytes(network.SerializeToString(deterministic=True))
    print(f"{target.name}: {target.stat().st_size:,} bytes, {hashlib.sha256(target.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
