"""What the keys of a question about texts must agree on: one text, who is mentioned in it, and a corpus."""

from __future__ import annotations

from fairchain.errors import SpecError
from fairchain.spec.schema import CategoryFeature, Difference, Ratio, Spec, TextFeature, Texts

# Names of the value that a text has which mentions none of the others.
NOBODY = ("none", "others", "other", "nobody")


def check_texts(spec: Spec) -> None:
    """Raise a SpecError for the first thing about texts that cannot be meant."""
    texts = [feature for feature in spec.described if isinstance(feature, TextFeature)]
    mentioned = [f for f in spec.features if isinstance(f, CategoryFeature) and f.terms is not None]
    if not texts:
        _check_no_texts(spec, mentioned)
        return
    if len(texts) > 1:
        raise SpecError(f'feature "{texts[1].name}": is a second text, and a network reads one; keep one')
    _check_text(texts[0])
    others = [feature for feature in spec.features if feature not in mentioned]
    if others:
        raise SpecError(
            f'feature "{others[0].name}": beside a text stand only features that say who is mentioned in it; add '
            'terms = "religion" (or race, gender, a file or a table of words)'
        )
    if not isinstance(spec.population, Texts):
        raise SpecError('population.kind: a text is drawn from a corpus; write kind = "text" with path or dataset')
    for feature in mentioned:
        _check_mentioned(feature)
    _check_corpus(spec.population)
    _check_question(spec)


def _check_no_texts(spec: Spec, mentioned: list[CategoryFeature]) -> None:
    if isinstance(spec.population, Texts):
        raise SpecError('population.kind: "text" needs a text for the network to read; add a [[feature]] of that kind')
    if mentioned:
        raise SpecError(
            f'feature "{mentioned[0].name}".terms: there is no text to look for them in; add a [[feature]] with '
            'kind = "text"'
        )


def _check_text(feature: TextFeature) -> None:
    where = f'feature "{feature.name}"'
    if (feature.vectors is None) == (feature.vocabulary is None):
        found = "neither vectors nor vocabulary" if feature.vectors is None else "both vectors and vocabulary"
        raise SpecError(
            f'{where}: has {found}; write vectors = "glove" (or a file) if the network takes vectors of words, '
            'vocabulary = "words.txt" if it takes their numbers'
        )


def _check_mentioned(feature: CategoryFeature) -> None:
    where = f'feature "{feature.name}"'
    for key in ("codes", "cells", "missing", "column", "input"):
        if getattr(feature, key) is not None:
            raise SpecError(f"{where}.{key}: who is mentioned is read off the text; remove it")
    if feature.one_hot:
        raise SpecError(f"{where}.one_hot: the network gets the text alone; remove it")
    if isinstance(feature.terms, dict):
        for value in feature.terms:
            if value != "neutral" and value not in map(str, feature.values):
                raise SpecError(f'{where}.terms: "{value}" is not one of its values; add it there, or remove its words')


def _check_corpus(corpus: Texts) -> None:
    if (corpus.path is None) == (corpus.dataset is None):
        found = "neither path nor dataset" if corpus.path is None else "both path and dataset"
        raise SpecError(f'population: has {found}; name a file, path = "texts.csv", or write dataset = "toxicity"')
    if (corpus.synonyms == "wordnet") != (corpus.wordnet is not None):
        remedy = 'name its folder: wordnet = "/usr/share/wordnet"' if corpus.wordnet is None else "remove one"
        raise SpecError(f'population.wordnet: goes together with synonyms = "wordnet"; {remedy}')


def _check_question(spec: Spec) -> None:
    asked = spec.property
    if asked.given is not None:
        raise SpecError("property.given: a text has no values to put conditions on; leave it out, or cut the corpus")
    if isinstance(asked, Difference | Ratio):
        if asked.criterion != "demographic_parity":
            raise SpecError(
                f'property.criterion: "{asked.criterion}" needs true labels, and texts are compared without them; '
                "keep only the texts of one true label in the corpus, and leave it out"
            )
        return
    if isinstance(spec.population, Texts) and spec.population.reading != "swapped":
        raise SpecError(
            'property.kind: "individual" asks about the same text as each group; write as = "swapped" in [population]'
        )
