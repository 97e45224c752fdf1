"""Compares an audit of a transformer with its bare batched inference on the same texts.

    python -m benchmarks.transformer_speed FOLDER [--texts N] [--skip N] [--turns N]

FOLDER is a model of `benchmarks.train_transformer`, or any folder of `save_pretrained`. Both sides tokenize the same
comments, in batches of like length, on one thread; they take turns, and the median ratio of processor times counts.
"""

from __future__ import annotations

import argparse
import csv
from importlib import import_module
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from fairchain import check
from fairchain.datasets import get_all

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=8000)
    parser.add_argument("--skip", type=int, default=0, help="leave out so many comments at the beginning of the data")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    (table,) = get_all(["toxicity"], progress=print)["toxicity"]
    with table.open(encoding="utf-8", newline="") as file:
        some = islice(csv.DictReader(file), options.skip, options.skip + options.texts)
        texts = [row["comment"] for row in some]
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    library = import_module("transformers")
    model = library.AutoModelForSequenceClassification.from_pretrained(options.folder).eval()
    tokenizer = library.AutoTokenizer.from_pretrained(options.folder)
    ratios = []
    bare(torch, model, tokenizer, texts[:500])
    for _ in range(options.turns):
        start = process_time()
        toxic = bare(torch, model, tokenizer, texts)
        middle = process_time()
        verdict = check((model, tokenizer), {"comment": texts}, text="comment", terms="religion", workers=1)
        ratios.append((middle - start) / (process_time() - middle))
        print(f"bare {middle - start:.2f} s, audit {process_time() - middle:.2f} s, ratio {ratios[-1]:.3f}")
        assert verdict.evaluations == len(texts)
        assert toxic > 0
    print(f"{len(texts):,} texts: the audit has {median(ratios):.3f} of the throughput of bare inference")


def bare(torch: Any, model: Any, tokenizer: Any, texts: list[str]) -> int:
    """Return how many texts get the second label, by batches of like length and nothing else."""
    encoded = tokenizer(texts, truncation=True)
    order = sorted(range(len(texts)), key=lambda place: len(encoded["input_ids"][place]))
    found = 0
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            fields = {name: [values[place] for place in part] for name, values in encoded.items()}
            logits = model(**tokenizer.pad(fields, return_tensors="pt")).logits
            found += int((logits.argmax(dim=1) == 1).sum())
    return found


if __name__ == "__main__":
    main()
