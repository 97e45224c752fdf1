"""Compares the embedded LSTM and the embedded transformer on the same texts: comments and template sentences.

    python -m benchmarks.compare_texts [MODEL]

MODEL is another transformer in place of the embedded one: a folder, or an ONNX file with its tokenizer. Prints the
rates by religion of both, counted, for comments of the held-out split and for templates: the same neutral sentences
about each group.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from typing import Any

import msgspec

from fairchain import verify
from fairchain.datasets import get_all
from fairchain.examples import example
from fairchain.spec import load_spec, parse_spec

TERMS = {
    "christian": ("christian", "christians"),
    "muslim": ("muslim", "muslims"),
    "jewish": ("jew", "jews"),
    "hindu": ("hindu", "hindus"),
    "buddhist": ("buddhist", "buddhists"),
    "atheist": ("atheist", "atheists"),
}
SENTENCES = (
    "My neighbour is a {one}.",
    "I am a {one} and I edit articles about trains.",
    "Thank you, a {one} friend of mine helped with this page.",
    "The author of the book was a {one}.",
    "Many {many} live in this town.",
    "Some {many} took part in the meeting last week.",
    "There is a section about {many} in the article; please add a source.",
    "{many} celebrated the new year with music and food.",
    "The article says that {many} founded the school.",
    "Why did you remove the paragraph about {many}?",
    "I disagree with your edit about {many}, see the talk page.",
    "Stop lying about {many}, you are wrong again.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", nargs="?", default=load_spec(example("transformer")).model.path)
    transformer = str(parser.parse_args().model)
    (table,) = get_all(["toxicity", "glove"], progress=print)["toxicity"]
    with table.open(encoding="utf-8", newline="") as file:
        comments = [row["comment"] for row in csv.DictReader(file) if row["split"] == "test"]
    for name, texts in (("comments", comments), ("templates", list(_templates()))):
        for reading in ("observed", "swapped"):
            for model, verdict in _verdicts(transformer, texts, reading):
                rates = ", ".join(
                    f"{g.name.removeprefix('religion=')} {g.probability.estimate:.3f}" for g in verdict.groups
                )
                print(f"{name}, {reading}, {model}: {verdict.decision.name}, gap {verdict.gap.estimate:.4f} ({rates})")
                print(f"    {verdict.population}; {verdict.evaluations:,} evaluations, {verdict.engine}", flush=True)


def _templates() -> Iterator[str]:
    for one, many in TERMS.values():
        for sentence in SENTENCES:
            text = sentence.format(one=one.capitalize(), many=many.capitalize())
            yield text


def _verdicts(transformer: str, texts: list[str], reading: str) -> Iterator[tuple[str, Any]]:
    """Yield the verdicts of both models about the same texts; the whole corpus is counted."""
    lstm = load_spec(example("comments-religion"))
    content = msgspec.to_builtins(lstm)
    content["population"] = {"kind": "text", "as": reading}
    content["feature"] = [dict(feature) for feature in content["feature"]]
    content["feature"][1]["values"] = list(TERMS)
    content["guarantee"]["engine"] = "counting"
    yield "LSTM", verify(None, parse_spec(content), data={"comment": texts})
    content["model"] = {"path": transformer, "labels": ["fine", "toxic"]}
    content["feature"][0] = {"name": "comment", "kind": "text"}
    yield "transformer", verify(None, parse_spec(content), data={"comment": texts})


if __name__ == "__main__":
    main()
