"""Numbers in the documents are those of the kept counts."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_document_contains_its_sentences() -> None:
    wanted = defaultdict(list)
    for document, sentence in import_module("benchmarks.documents").sentences():
        wanted[document].append(sentence)
    assert set(wanted) == {
        "README.md",
        "docs/repair.md",
        "docs/mathematics.md",
        "docs/mathematics-tables.md",
        "docs/scaling.md",
        "docs/exact.md",
    }
    for document, sentences in wanted.items():
        text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
        assert [sentence for sentence in sentences if sentence not in text] == [], document


def test_the_sentence_about_verifair_is_of_the_ratios() -> None:
    ratios = {"census race": 11.6, "census age": 30.9, "credit sex": 20.0, "credit age": 20.0, "bank age": 20.0}
    ratios |= {"census sex": 20.0, "comments race": 13.2, "comments religion": 9.7}
    counts = {}
    for case, ratio in ratios.items():
        counts[f"ours / {case} / fairchain 1e-6"] = [90, 110]
        counts[f"ours / {case} / VeriFair 1e-6"] = [round(100 * ratio)] * 2
    told = "12 to 31 times as many on six feed-forward cases, 10 and 13 times as many on two text cases"
    assert import_module("benchmarks.documents").against_verifair(counts) == told
