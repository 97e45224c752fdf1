"""Promises of `population.texts`: each subgroup draws its own texts, all alike, and an exchange changes terms alone.

Each statistical test would fail for one seed in a million if what it promises held; the seeds are fixed.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fairchain import datasets
from fairchain.datasets.fetch import choice_file
from fairchain.errors import DataError, SpecError
from fairchain.populations import Scratch, build_population, text_rows
from fairchain.populations.build import SHARES_UNKNOWN, large_enough
from fairchain.populations.streams import Address
from fairchain.populations.text_rows import (
    GROUP_OF_SEVERAL_TERMS,
    MOST_KEPT,
    NO_TEXT_MENTIONS,
    TERM_TWICE,
    read_texts,
)
from fairchain.populations.texts import AGAIN, TextPopulation
from fairchain.spec import comparison_of, parse_spec
from fairchain.text.substitution import SYNONYMS_NEED_VECTORS
from fairchain.text.terms import kept_words
from tests.messages import says
from tests.questions import changed
from tests.text.builders import TERMS, TEXTS, WORDS, corpus_file, population_of, question, spec_of

RARE = 1e-6
SUN, MOON, NONE = range(3)
TERM_WORDS = {word for value, words in TERMS.items() if value != "neutral" for word in words}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))


def texts(population: TextPopulation, subgroup: int, count: int = 3000, seed: int = 0, **more: Any) -> list[str]:
    rows = population.rounds(seed, 0, count, **more).show(subgroup)
    return [population.lexicon.text(row) for row in rows.tolist()]


def test_an_subgroup_shows_the_texts_that_mention_its_group(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path))
    assert [sorted(pool.tolist()) for pool in population.pools] == [[0, 1, 3], [2, 3], [4, 5]]
    assert population.shares() == (0.5, 1 / 3, 1 / 3)
    # A text that mentions both belongs to both.
    assert "moonies say the sunny town awful" in set(texts(population, SUN)) & set(texts(population, MOON))
    assert not any(TERM_WORDS & set(text.split()) for text in texts(population, NONE))


def test_every_text_of_a_pool_is_as_likely_as_any_other(tmp_path: Path) -> None:
    many = tuple(f"sunny {word} {other}" for word in WORDS[:7] for other in WORDS[7:10]) + TEXTS
    population = population_of(spec_of(tmp_path, many))
    counts = Counter(texts(population, SUN, 60_000))
    assert len(counts) == 24
    assert chisquare(list(counts.values())).pvalue > RARE


LABELLED = tuple(
    f"{label},{term} {words}"
    for term, shares in (("sunny", "aab"), ("moony", "abb"))
    for label, words in zip(shares, ("the good house and dog", "bad", "red sea"), strict=True)
)


def labelled(folder: Path, **more: Any) -> TextPopulation:
    """Three texts of each group: of sun's one has the larger label, of moon's two."""
    file = folder / "labelled.csv"
    file.write_text("label,text\n" + "\n".join((*LABELLED, "b,the red sea", "a,the dog")) + "\n")
    data = question(folder, column="text", **more)
    return population_of(parse_spec(changed(data, "population.path", str(file))))


def test_subgroups_stand_at_the_same_place_of_their_groups_texts(tmp_path: Path) -> None:
    """By label, then from short to long, so that subgroups of a round differ in what their groups differ in alone."""
    population = labelled(tmp_path, pair_by="label")
    drawn = {subgroup: texts(population, subgroup, 9000) for subgroup in (SUN, MOON)}
    assert Counter(zip(drawn[SUN], drawn[MOON], strict=True)).keys() == {
        ("sunny bad", "moony the good house and dog"),
        ("sunny the good house and dog", "moony bad"),
        ("sunny red sea", "moony red sea"),
    }
    for found in drawn.values():
        assert chisquare(list(Counter(found).values())).pvalue > RARE
    # Without labels length alone is left.
    drawn = {subgroup: texts(labelled(tmp_path), subgroup, 9000) for subgroup in (SUN, MOON)}
    assert all(sun.replace("sunny", "moony") == moon for sun, moon in zip(drawn[SUN], drawn[MOON], strict=True))


def test_subgroups_are_independent_in_copies(tmp_path: Path) -> None:
    population = labelled(tmp_path, pair_by="label")
    table = Counter(zip(texts(population, SUN, 9000, copy=1), texts(population, MOON, 9000, copy=2), strict=True))
    assert len(table) == 9
    assert chisquare(list(table.values())).pvalue > RARE


def test_an_exchange_changes_terms_alone_and_keeps_their_form(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, **{"as": "swapped", "replace": 3}))
    rounds = population.rounds(5, 7, 500)
    shown = [population.lexicon.text(row).split() for subgroup in range(3) for row in rounds.show(subgroup).tolist()]
    form = {word: place for words in TERMS.values() for place, word in enumerate(words)}
    for sun, moon, none in zip(shown[:500], shown[500:1000], shown[1000:], strict=True):
        assert len(sun) == len(moon) == len(none)
        places = [place for place, words in enumerate(zip(sun, moon, none, strict=True)) if len(set(words)) > 1]
        assert places
        for place in places:
            assert sun[place] in TERMS["sun"]
            assert moon[place] in TERMS["moon"]
            assert none[place] in TERMS["neutral"]
            assert form[sun[place]] == form[moon[place]] == form[none[place]]
        assert not set(moon) & set(TERMS["sun"])


def test_an_exchange_draws_the_texts_that_mention_somebody_all_alike(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, **{"as": "swapped"}))
    counts = Counter(texts(population, MOON, 20_000))
    assert len(counts) == 4
    assert chisquare(list(counts.values())).pvalue > RARE
    assert population.shares() is None


def test_synonyms_are_drawn_as_promised(tmp_path: Path) -> None:
    """One replacement in a text of three words with synonyms: each place and each synonym as likely as any other."""
    population = population_of(spec_of(tmp_path, ("the good dog and sea", "sunny", "moony"), replace=1, neighbours=2))
    found = Counter(texts(population, NONE, 60_000))
    assert len(found) == 6
    assert chisquare(list(found.values())).pvalue > RARE
    for text in found:
        assert sum(a != b for a, b in zip(text.split(), ["the", "good", "dog", "and", "sea"], strict=True)) == 1


def test_a_text_without_words_that_can_be_replaced_stays_as_it_is_beside_others(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, ("the and", "the good dog", "and the", "sunny", "moony"), replace=3))
    drawn = set(texts(population, NONE, 2000))
    assert {"the and", "and the"} < drawn
    assert {len(text.split()) for text in drawn} == {2, 3}
    assert {text for text in drawn if len(text.split()) == 2} == {"the and", "and the"}
    assert "the good dog" not in drawn


@pytest.mark.parametrize("replace", [0, 1, 2, 5])
def test_at_most_so_many_words_are_replaced(replace: int, tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, replace=replace))
    base = {tuple(row) for row in population.corpus.ids[population.pools[NONE]].tolist()}
    rows = population.rounds(0, 0, 2000).show(NONE).tolist()
    changes = [min(sum(a != b for a, b in zip(row, text, strict=True)) for text in base) for row in rows]
    assert max(changes) == min(replace, 4)
    # Words at the front, padding behind: a replacement is never at a place behind the text.
    assert all(list(row).index(0) == np.count_nonzero(row) for row in rows if 0 in row)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**62), chunk=st.integers(0, 2**40), subgroup=st.integers(0, 2))
def test_terms_are_never_replaced_and_never_offered(seed: int, chunk: int, subgroup: int, tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, replace=4, neighbours=30))
    plain = population_of(spec_of(tmp_path))
    never = [population.lexicon.numbers[word] for word in (TERM_WORDS | kept_words()) & set(WORDS)]
    shown, base = (each.rounds(seed, chunk, 200).show(subgroup) for each in (population, plain))
    assert np.array_equal(np.isin(shown, never), np.isin(base, never))
    assert np.array_equal(shown[np.isin(base, never)], base[np.isin(base, never)])
    assert (shown != base).any()


def test_a_corpus_is_looked_through_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = population_of(spec_of(tmp_path, replace=2)).rounds(1, 2, 300).inputs([0, 1, 2])
    monkeypatch.setattr("fairchain.text.terms.TEXTS_AT_ONCE", 2)
    monkeypatch.setattr("fairchain.text.substitution.REPLACED_AT_ONCE", 2)
    assert np.array_equal(population_of(spec_of(tmp_path, replace=2)).rounds(1, 2, 300).inputs([0, 1, 2]), whole)


def test_draws_follow_from_their_address_alone(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, replace=2))
    scratch = Scratch()
    whole = population.rounds(3, 4, 100).inputs([0, 1, 2])
    population.rounds(3, 5, 300, scratch=scratch).show(1)
    again = population.rounds(3, 4, 100, scratch=scratch)
    assert np.array_equal(again.show(2), whole[200:])
    assert np.array_equal(again.show(0), whole[:100])
    assert np.array_equal(again.show(2), whole[200:])
    for other in (population.rounds(3, 4, 100, copy=1), population.rounds(4, 4, 100), population.rounds(3, 6, 100)):
        assert not np.array_equal(other.inputs([0, 1, 2]), whole)


def test_a_rejected_word_is_drawn_again_by_each_subgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools are small, so that a word is rejected once in a billion: here every one is looked at again."""
    population = population_of(spec_of(tmp_path, replace=1))
    plain = population.rounds(3, 4, 100).inputs([2, 0])
    monkeypatch.setattr(population, "_most_surplus", 2**32)
    assert np.array_equal(population.rounds(3, 4, 100).inputs([2, 0]), plain)
    monkeypatch.setattr(Address, "below", lambda _, words, size, substream: words * 0 + substream % size)
    again = population.rounds(3, 4, 1).inputs([2, 0])
    own = [population.pools[2][(AGAIN + 2) % 2], population.pools[0][AGAIN % 3]]
    assert (again != population.corpus.ids[own]).sum(axis=1).max() <= 1


def test_the_first_draws_are_pinned(tmp_path: Path) -> None:
    """Certificates name their draws by address: a change here would make every one of them uncheckable."""
    population = population_of(spec_of(tmp_path, replace=1))
    assert texts(population, SUN, 3, seed=1) == [
        "moonies awful the sunny town awful",
        "sunny walk the cat good",
        "the sunnies run and the house n't bad",
    ]


def test_rows_are_what_a_network_of_texts_takes(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path))
    rows = population.rounds(0, 0, 10).inputs([0, 1])
    assert (rows.shape, rows.dtype, population.width, population.dtype) == ((20, 8), np.int32, 8, np.int32)


def test_a_mean_of_groups_and_everybody_are_drawn_too(tmp_path: Path) -> None:
    for compare, everybody in (("overall", 6), ("average", 6)):
        spec = parse_spec(changed(question(tmp_path), "property.compare", compare))
        subgroups = comparison_of(spec).subgroups
        population = build_population(spec, subgroups)
        place = next(place for place, subgroup in enumerate(subgroups) if subgroup.group is None and not subgroup.mixed)
        rows = population.rounds(0, 0, 2000).show(place)
        assert len(np.unique(rows, axis=0)) == everybody
        assert population.sha256


def test_groups_of_several_values_and_several_features(tmp_path: Path) -> None:
    joined = changed(question(tmp_path), "feature.1.groups", {"somebody": ["sun", "moon"], "nobody": "none"})
    assert [len(pool) for pool in population_of(parse_spec(joined)).pools] == [4, 2]
    with pytest.raises(SpecError, match=says(GROUP_OF_SEVERAL_TERMS)):
        population_of(parse_spec(changed(joined, "population.as", "swapped")))
    colour = {"name": "colour", "kind": "category", "values": ["red", "none"], "terms": {"red": ["red", "green"]}}
    both = question(tmp_path)
    both["feature"].append(colour)
    both["property"]["protected"] = ["faith", "colour"]
    with pytest.raises(DataError, match=says(NO_TEXT_MENTIONS, what='"faith=sun & colour=red"')):
        population_of(parse_spec(both))
    both["feature"][2]["terms"] = {"red": ["sunny"]}
    with pytest.raises(SpecError, match=says(TERM_TWICE, word="sunny", seen="faith")):
        population_of(parse_spec(both))


def test_small_groups_can_be_left_out(tmp_path: Path) -> None:
    data = changed(question(tmp_path, (*TEXTS, "the dog")), "property.min_size", 0.4)
    for least in (0.4, 3):
        spec = parse_spec(changed(data, "property.min_size", least))
        groups, left = large_enough(spec, read_texts(spec))
        assert [group.name for group in groups] == ["faith=sun", "faith=none"]
        assert left == (("faith=moon", 2),)
    spec = parse_spec(changed(data, "population.as", "swapped"))
    with pytest.raises(SpecError, match=says(SHARES_UNKNOWN)):
        large_enough(spec, read_texts(spec))


def test_a_phrase_says_what_is_drawn(tmp_path: Path) -> None:
    observed = str(population_of(spec_of(tmp_path, replace=2)))
    assert observed == (
        "the texts of texts.txt that mention each group (faith=sun 3, faith=moon 2, faith=none 2; 6 in all), "
        "up to 2 words of each replaced by synonyms (8 nearest words)"
    )
    swapped = str(population_of(spec_of(tmp_path, **{"as": "swapped"})))
    assert swapped == "the 4 texts of texts.txt that mention a faith, as those of every group"


def test_texts_that_are_left_out_are_told(tmp_path: Path) -> None:
    population = population_of(spec_of(tmp_path, (*TEXTS, "quite unknown")))
    assert population.notes == ("1 of 7 texts hold no known word and are never drawn.",)
    assert population_of(spec_of(tmp_path)).notes == ()


def test_the_hash_is_of_corpus_words_terms_and_synonyms(tmp_path: Path) -> None:
    plain = question(tmp_path)
    hashes = [
        population_of(parse_spec(each)).sha256
        for each in (
            plain,
            changed(plain, "feature.1.terms.sun", ["sunny"]),
            changed(plain, "population.replace", 1),
            changed(changed(plain, "population.replace", 1), "population.neighbours", 2),
        )
    ]
    assert population_of(parse_spec(plain)).sha256 == hashes[0]
    hashes.append(population_of(spec_of(tmp_path, TEXTS[:-1])).sha256)
    assert len(set(hashes)) == 5
    # How texts are paired changes no rate, and the spec says it.
    assert labelled(tmp_path).sha256 == labelled(tmp_path, pair_by="label").sha256


def test_what_was_found_in_a_corpus_is_kept_for_questions_like_the_last(tmp_path: Path) -> None:
    data = question(tmp_path, replace=1)
    rows = read_texts(parse_spec(data))
    subgroups = comparison_of(rows.spec).subgroups
    for key, value in (("guarantee.seed", 7), ("property.threshold", 0.2), ("guarantee.delta", 1e-4)):
        again = read_texts(parse_spec(changed(data, key, value)))
        assert again is rows
        assert again.population_of(subgroups) is rows.population_of(subgroups)
    assert rows.population_of(subgroups[:2]).pools[1] is not rows.population_of(subgroups).pools[0]
    for number in range(20):
        read_texts(parse_spec(changed(data, "feature.1.terms.sun", ["sunny", f"sun{number}"])))
    assert len(text_rows._last_rows) <= MOST_KEPT
    copied = pickle.loads(pickle.dumps(rows.population_of(subgroups)))
    assert np.array_equal(
        copied.rounds(1, 2, 50).inputs([0, 1, 2]), population_of(rows.spec).rounds(1, 2, 50).inputs([0, 1, 2])
    )


def test_a_changed_file_or_question_is_always_seen(tmp_path: Path) -> None:
    (tmp_path / "terms.toml").write_text('sun = ["sunny"]\nmoon = ["moony"]\n')
    data = changed(question(tmp_path), "feature.1.terms", str(tmp_path / "terms.toml"))

    def pools(**changes: Any) -> list[list[int]]:
        asked = data
        for key, value in changes.items():
            asked = changed(asked, key.replace("__", "."), value)
        spec = parse_spec(asked)
        return [sorted(pool.tolist()) for pool in build_population(spec, comparison_of(spec).subgroups).pools]

    assert pools() == pools() == [[0, 3], [2], [1, 4, 5]]
    assert pools(feature__1__terms=TERMS) == [[0, 1, 3], [2, 3], [4, 5]]
    assert pools(feature__1__values=["moon", "sun", "none"]) == [[2], [0, 3], [1, 4, 5]]
    assert pools(population__as="swapped", feature__1__terms=TERMS) == [[0, 1, 2, 3]] * 3
    (tmp_path / "terms.toml").write_text('sun = ["sunny", "sunnies"]\nmoon = ["moony"]\n')
    assert pools() == [[0, 1, 3], [2], [4, 5]]
    corpus_file(tmp_path, TEXTS[:-1])
    assert pools() == [[0, 1, 3], [2], [4]]
    (tmp_path / "terms.toml").unlink()
    with pytest.raises(SpecError, match=r"terms\.toml"):
        pools()


def test_the_users_own_files_of_a_data_set_are_seen_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache" / "toxicity"
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(folder.parent))
    folder.mkdir(parents=True)
    data = question(tmp_path, path=None, dataset="toxicity")

    def texts() -> int:
        return len(read_texts(parse_spec(data)).corpus)

    def written(path: Path, count: int) -> Path:
        lines = [f'"{text}",fine,train\n' for text in TEXTS[:count]]
        path.write_text("comment,toxic,split\n" + "".join(lines), encoding="utf-8")
        return path

    written(folder / "comments.csv", 6)
    assert texts() == 6
    for count in (5, 4):
        copies = folder / "own" / f"copy{count}"
        copies.mkdir(parents=True)
        written(copies / "comments.csv", count)
        choice_file("toxicity").write_text(copies.name)
        assert texts() == count
    datasets.remove(["toxicity"])
    with pytest.raises(DataError, match="toxicity"):
        texts()


def test_a_file_of_the_same_name_time_and_size_in_another_folder_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = question(tmp_path)
    data["population"]["path"] = "texts.txt"
    found = []
    for name, last in (("first", "sun"), ("second", "day")):
        (tmp_path / name).mkdir()
        file = corpus_file(tmp_path / name, (*TEXTS[:-1], f"the good {last}"))
        os.utime(file, ns=(10**18, 10**18))
        monkeypatch.chdir(tmp_path / name)
        found.append(read_texts(parse_spec(data)).sha256)
    assert found[0] != found[1]


def test_the_rows_of_one_corpus_are_kept_at_a_time(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    for folder in (first, second):
        folder.mkdir()
        read_texts(parse_spec(question(folder)))
    (kept,) = text_rows._last_rows.values()
    assert kept.corpus.name.startswith(str(second))


BAD: dict[str, tuple[tuple[str, ...], dict[str, Any], type[Exception], str]] = {
    "a group without texts": (TEXTS[4:], {}, DataError, 'none of its 2 texts mentions "faith=sun"'),
    "nobody mentioned": (TEXTS[4:], {"population.as": "swapped"}, DataError, "mentions a term of any value of faith"),
    "an empty corpus": ((), {}, DataError, "contains no texts"),
    "no known word": (("quite", "unknown"), {}, DataError, "none of its 2 texts contains a word"),
    "overlapping lists": (
        TEXTS,
        {"feature.1.terms.moon": ["sunny", "moony"]},
        SpecError,
        '"sunny" is a word of "sun" and of "moon"',
    ),
    "a term that the network does not know": (
        TEXTS,
        {"population.as": "swapped", "feature.1.terms.moon": ["moony", "mooniest"]},
        SpecError,
        '"mooniest" is not a word of',
    ),
    "no synonyms": (
        ("sunny the", "moony and", "the and"),
        {"population.replace": 1},
        DataError,
        "no word of its texts has a synonym",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_question_that_cannot_be_asked_gives_one_message(name: str, tmp_path: Path) -> None:
    corpus, changes, kind, message = BAD[name]
    data = question(tmp_path, corpus)
    for key, value in changes.items():
        data = changed(data, key, value)
    with pytest.raises(kind, match=message) as caught:
        population_of(parse_spec(data))
    assert "\n" not in str(caught.value)


def test_synonyms_of_a_vocabulary_come_from_wordnet_only(tmp_path: Path) -> None:
    """In the WordNet of this test a cat is a dog."""
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    data = changed(question(tmp_path, replace=1), "feature.0.vectors", ...)
    data = changed(data, "feature.0.vocabulary", str(tmp_path / "words.txt"))
    with pytest.raises(SpecError, match=says(SYNONYMS_NEED_VECTORS)):
        population_of(parse_spec(data))
    assert population_of(parse_spec(changed(data, "population.replace", 0))).lexicon.table is None
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"index.{part}").write_text("cat n 1 0 1 0 00000010\n" if part == "noun" else "")
        (tmp_path / f"data.{part}").write_text("00000010 03 n 02 cat 0 dog 0 000 | x\n" if part == "noun" else "")
    data["population"] |= {"synonyms": "wordnet", "wordnet": str(tmp_path)}
    spec = parse_spec(data)
    population = build_population(spec, comparison_of(spec).subgroups)
    assert set(texts(population, NONE)) == {"the red sea and the green lake", "dog and dog tell"}
    assert str(population).endswith("replaced by synonyms (WordNet)")
    (tmp_path / "data.noun").write_text("00000010 03 n 02 cat 0 house 0 000 | x\n")
    population = build_population(spec, comparison_of(spec).subgroups)
    assert set(texts(population, NONE)) == {"the red sea and the green lake", "dog and house tell"}
