"""A tiny language for tests: words with vectors, texts that mention two faiths or nobody, and questions about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairchain.populations.text_rows import read_texts
from fairchain.populations.texts import TextPopulation
from fairchain.spec import Spec, groups_of, parse_spec
from fairchain.spec.subgroups import subgroups_of_groups

# Pairs that stand side by side are near each other.
NEAR = (
    *("good", "fine", "bad", "awful", "house", "home", "town", "city", "walk", "run", "book", "page", "say", "tell"),
    *("dog", "cat", "sea", "lake", "red", "green"),
)
OTHERS = ("sun", "sunny", "sunnies", "moon", "moony", "moonies", "sky", "cloudy", "clouds", "the", "and", "n't", "'s")
WORDS = (*NEAR, *OTHERS)
TERMS = {"sun": ["sunny", "sunnies"], "moon": ["moony", "moonies"], "neutral": ["cloudy", "clouds"]}
TEXTS = (
    "Sunny people walk: the house is good!",
    "The sunnies run, and the dog isn't bad.",
    "the moony book, the moony page",
    "moonies say the sunny town is awful",
    "the red sea and the green lake",
    "a dog and a cat tell",
)


def vectors_file(folder: Path, words: tuple[str, ...] = WORDS, width: int = 5) -> Path:
    """GloVe text: a pair of words differs in the last digits only."""
    random = np.random.default_rng(1)
    rows = np.repeat(random.normal(size=(len(words) // 2 + 1, width)), 2, axis=0)[: len(words)]
    rows += 0.01 * random.normal(size=rows.shape)
    path = folder / "vectors.txt"
    lines = [" ".join([word, *(f"{number:.6f}" for number in row)]) for word, row in zip(words, rows, strict=True)]
    path.write_text("\n".join(lines))
    return path


def corpus_file(folder: Path, texts: tuple[str, ...] = TEXTS) -> Path:
    path = folder / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def question(folder: Path, texts: tuple[str, ...] = TEXTS, **population: Any) -> dict[str, Any]:
    """Who is mentioned: sun, moon or none; the texts and vectors are written to the folder."""
    return {
        "model": {"path": "network.onnx", "labels": ["fine", "toxic"], "decision": "probability"},
        "feature": [
            {"name": "comment", "kind": "text", "length": 8, "vectors": str(vectors_file(folder))},
            {"name": "faith", "kind": "category", "values": ["sun", "moon", "none"], "terms": TERMS},
        ],
        "population": {"kind": "text", "path": str(corpus_file(folder, texts)), "as": "observed", **population},
        "property": {"kind": "difference", "protected": ["faith"], "outcome": "toxic", "threshold": 0.1},
        "guarantee": {"delta": 1e-3, "budget": {"rounds": 20000, "seconds": 30}},
    }


def raw_question(folder: Path, texts: tuple[str, ...] = TEXTS, **population: Any) -> dict[str, Any]:
    """The same about a model that gets the texts as they are."""
    data = question(folder, texts, **population)
    data["feature"][0] = {"name": "comment", "kind": "text"}
    return data


def spec_of(folder: Path, texts: tuple[str, ...] = TEXTS, **population: Any) -> Spec:
    return parse_spec(question(folder, texts, **population))


def population_of(spec: Spec) -> TextPopulation:
    return TextPopulation(read_texts(spec), subgroups_of_groups(groups_of(spec)))
