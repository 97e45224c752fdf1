"""Trains the example network that reads comments, and writes it with its part of the model card.

    python -m benchmarks.train_text [--out FOLDER]

Needs the `torch` extra and the data sets toxicity and glove, which it fetches. Takes a few minutes on one core.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.train_text_card import MARK, Score, card_text
from benchmarks.train_text_network import Comments, FloatArray, Recipe, Rows, to_onnx, torch_logits, train
from fairchain.datasets import get_all
from fairchain.spec import TextFeature
from fairchain.text import lexicon_of, tokenise

SEED = 0
LENGTH = 60
DOC = (
    "Is a comment toxic? An LSTM of 8 cells on GloVe vectors (PDDL 1.0), trained on Wikipedia talk page comments "
    "(text CC BY-SA 3.0, annotations CC0 1.0). It exists to be examined."
)


@dataclass(frozen=True)
class Answers:
    """Logits of a split, and the true labels."""

    logits: FloatArray
    labels: NDArray[np.int64]

    @property
    def score(self) -> Score:
        """Accuracy and area under the curve, and what always saying the commoner label would get."""
        said = self.logits.argmax(axis=1)
        toxic = self.labels == 1
        return Score(
            rows=len(self.labels),
            toxic=int(toxic.sum()),
            accuracy=float((said == self.labels).mean()),
            auc=area(self.logits[:, 1] - self.logits[:, 0], toxic),
            caught=float(said[toxic].mean()),
            precise=float(toxic[said == 1].mean()),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    out = parser.parse_args().out
    data = read()
    recipe = Recipe()
    network = train(data, recipe, SEED)
    scores = {split: _answers(to_onnx(network, DOC, {}), data, split).score for split in ("train", "dev", "test")}
    content = to_onnx(network, DOC, _facts(scores["test"]))
    _check_same(content, torch_logits(network, data, data.rows("dev")), data)
    target = out / "src" / "fairchain" / "examples" / "comments.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    page = out / "benchmarks" / "NETWORKS.md"
    before = page.read_text(encoding="utf-8").partition(MARK)[0].rstrip() if page.exists() else ""
    card = card_text(scores, recipe, SEED, LENGTH, len(content), hashlib.sha256(content).hexdigest())
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"{before}\n\n{MARK}\n\n{card}", encoding="utf-8")
    for split, score in scores.items():
        print(f"{split}: accuracy {score.accuracy:.4f}, area under the curve {score.auc:.4f}, of {score.rows:,}")


def read() -> Comments:
    """The comments with fairchain's own words and numbers, so that a verdict is about what was trained."""
    (table,) = get_all(["toxicity", "glove"], progress=print)["toxicity"]
    lexicon = lexicon_of(TextFeature(name="comment", length=LENGTH, vectors="glove"))
    assert lexicon.table is not None
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ids = np.zeros((len(rows), LENGTH), np.int32)
    for place, row in enumerate(rows):
        known = lexicon.ids(tokenise(row["comment"]))[:LENGTH]
        ids[place, : len(known)] = known
    labels = np.array([row["toxic"] == "toxic" for row in rows], np.int64)
    return Comments(ids, lexicon.table, labels, np.array([row["split"] for row in rows]))


def _facts(held_out: Score) -> dict[str, str]:
    return {
        "seed": str(SEED),
        "words": str(LENGTH),
        "held-out accuracy": f"{held_out.accuracy:.4f}",
        "held-out area under the curve": f"{held_out.auc:.4f}",
        "held-out comments": str(held_out.rows),
    }


def _answers(content: bytes, data: Comments, split: str) -> Answers:
    rows = data.rows(split)
    return Answers(onnx_logits(content, data, rows), data.labels[rows])


def onnx_logits(content: bytes, data: Comments, rows: Rows, batch: int = 1024) -> FloatArray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    lengths = data.lengths.astype(np.int32)
    parts = []
    for start in range(0, len(rows), batch):
        each = rows[start : start + batch]
        shown = {"vectors": data.table[data.ids[each]], "lengths": lengths[each]}
        parts.append(session.run(None, shown)[0])
    return np.concatenate(parts)


def area(scores: NDArray[np.floating], toxic: NDArray[np.bool_]) -> float:
    """How often a toxic comment gets a higher score than a fine one; equal scores count half.

    >>> area(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    positive, negative = int(toxic.sum()), int((~toxic).sum())
    return float((ranks[toxic].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _check_same(content: bytes, reference: FloatArray, data: Comments) -> None:
    """The file must answer as the network that was trained: export may only round."""
    logits = onnx_logits(content, data, data.rows("dev"))
    worst = float(np.abs(logits - reference).max())
    changed = int((logits.argmax(axis=1) != reference.argmax(axis=1)).sum())
    print(f"largest deviation of a logit: {worst:.1e}; labels changed: {changed} of {len(logits)}")
    if worst > 1e-5:
        raise SystemExit("the ONNX file does not answer as the trained network does")


if __name__ == "__main__":
    main()
