"""Features from the columns of a table: which column fills which input of the model, and how it is encoded.

Names of inputs or columns leave one layout. A network with one flat input names nothing, so several layouts may have
its width; the true labels of the rows choose among them (`trials`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.drafting.guesses import Guess
from fairchain.drafting.signature import Input, Signature
from fairchain.errors import DataError, ModelError
from fairchain.messages import listed, shown, unknown
from fairchain.models.frames import CELLS_ALIKE
from fairchain.models.onnx.feature_encoding import widths
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature
from fairchain.spec.schema import NA_VALUES
from fairchain.spec.validate import MOST_EXACT, MOST_VALUES
from fairchain.tables import RawTable
from fairchain.tables.columns import NumberCells, number_text, parse_number

ID_NAMES = frozenset({"id", "ids", "index", "unnamed_0", "row", "row_id", "rowid", "uuid", "guid", "person_id", "name"})
# A word in the name of a feature, likeliest first.
PROTECTED_WORDS = (
    *("sex", "gender", "race", "ethnicity", "ethnic", "age", "religion", "religious", "disability", "disabled"),
    *("handicap", "nationality", "citizenship", "citizen", "foreign", "foreigner", "immigrant", "migrant", "native"),
    *("birthplace", "marital", "married", "pregnant", "pregnancy", "orientation", "caste", "veteran"),
)
MOST_CATEGORIES = 5000
# How words in the name of an input begin that takes categories, and of one that takes numbers.
WORD_INPUTS, NUMBER_INPUTS = (
    ("cat", "word", "code", "emb", "ids", "token", "discrete"),
    ("num", "cont", "real", "dense"),
)
CODES_GUESSED = (
    "The order of the values of {} is a guess, and no row shows whether the network was trained with it. State that "
    "order, or codes = [...], in each [[feature]], or give a table whose columns have a category type."
)
# A text column is an identifier if so many of its cells differ, in a table with enough rows.
NEARLY_ALL, ENOUGH_ROWS = 0.9, 50
COLUMNS_NOT_IN_TABLE = (
    "{name}: was fitted on columns that the table does not have: {lost}; give the table that it was fitted on, or "
    "rename the columns"
)
EMPTY_COLUMN = (
    "{source}: column {name} holds no value; fill it, or leave it out with --ignore (ignore=[...]) if the model does "
    "not take it"
)
ONLY_A_LABEL = "{name}: the table has no column to show it besides the label; give its inputs too"
TOO_MANY_CATEGORIES = (
    "{source}: column {name} holds {values_count:,} different texts, too many for a category; leave it out with "
    "--ignore (ignore=[...]), or put its values into groups"
)
NO_COLUMN_FOR_INPUT = (
    "{name}: no column of the table is called like {lost}, and the columns do not fit by their kind and number; the "
    'columns are {columns}: rename those that are meant, or write a spec with input = "..." in each [[feature]]'
)


def words_of(name: str) -> list[str]:
    """Return the words in a name: of `MaritalStatus`, `marital-status` and `marital_status` the same two.

    >>> words_of("MaritalStatus"), words_of("native-country"), words_of("ageGroup2")
    (['marital', 'status'], ['native', 'country'], ['age', 'group', '2'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_A-Za-z]+", name)]


def plain(name: str) -> str:
    """Return a name as its words joined by underscores, to compare names that differ in spelling only."""
    return "_".join(words_of(name))


def like_protected(names: Iterable[str]) -> list[str]:
    """Return the names of attributes that a law may protect, the likeliest first.

    >>> like_protected(["age", "average_age_of_car", "mileage", "sex", "native-country"])
    ['sex', 'age', 'average_age_of_car', 'native-country']
    """
    ranked = []
    for place, name in enumerate(names):
        found = [PROTECTED_WORDS.index(word) for word in words_of(name) if word in PROTECTED_WORDS]
        if found:
            ranked.append((min(found), len(words_of(name)), place, name))
    return [name for *_, name in sorted(ranked)]


@dataclass(frozen=True, eq=False)
class Profile:
    """Contents of one column.

    `typed`: the table tells texts from numbers, as frames do and CSV does not. `known` are the values that the model,
    or an encoder in it, was fitted on, in their order; None if it does not say.
    """

    table: RawTable
    name: str
    typed: bool = False
    known: tuple[Any, ...] | None = None

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The cells as numbers, NaN where one is missing; None if another cell is not a finite number."""
        found = self.table.numeric(self.name)
        # Of missing values alone both ends are NaN.
        return None if found is None or not all(map(math.isfinite, _ends(found))) else found

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of rows with each text, the empty one left out."""
        return self.table.counts(self.name)

    @cached_property
    def stated(self) -> tuple[str, ...] | None:
        """All values that the column's type states, then those that the model was fitted on; None if neither does."""
        if self.table.categories(self.name) is None and self.known is None:
            return None
        return tuple(dict.fromkeys(text.strip() for text in self._stated_cells))

    @property
    def _stated_cells(self) -> tuple[str, ...]:
        """The stated values with the blanks around them."""
        texts = (str, bool, np.bool_)
        fitted = (str(each) if isinstance(each, texts) else number_text(each) for each in self.known or ())
        return (*(self.table.categories(self.name) or ()), *fitted)

    @property
    def spellings(self) -> dict[str, str]:
        """Each text with the blanks around it that the table has, or else the model or the column's type states.

        Raises a DataError if the table has one with different blanks, which a model of texts may tell apart.
        """
        cells, found = self.table.cells(self.name), dict[str, str]()
        for cell in () if isinstance(cells, NumberCells) else cells.spellings:
            other = found.setdefault(cell.strip(), cell)
            if other != cell and cell.strip():
                raise DataError(CELLS_ALIKE.format(column=self.name, one=repr(other), two=repr(cell)))
        for cell in self._stated_cells:
            found.setdefault(cell.strip(), cell)
        return found

    @cached_property
    def texts(self) -> list[str]:
        """The stated values, then the other cells as most encoders order them: numbers by size, texts by letters."""
        numbers = {text: parse_number(text) for text in self.counts}
        by_size = all(number is not None for number in numbers.values())
        ordered = sorted(numbers, key=lambda text: numbers[text] or 0.0) if by_size else sorted(numbers)
        return list(dict.fromkeys((*(self.stated or ()), *ordered)))

    @property
    def markers(self) -> list[str]:
        """The texts that mark a missing value."""
        return [text for text in self.texts if text in NA_VALUES]

    @property
    def missing(self) -> int:
        """Number of missing cells."""
        filled = sum(self.counts.values()) if self.numbers is None else int((~np.isnan(self.numbers)).sum())
        return self.table.count - filled

    @cached_property
    def whole(self) -> bool:
        """Whether all cells are whole numbers; -0.0 is none, since it would lose its sign."""
        if self.numbers is None:
            return False
        cells = self.table.cells(self.name)
        if isinstance(cells, NumberCells) and cells.values.dtype.kind in "iu":
            return True
        known = self.numbers[~np.isnan(self.numbers)]
        return bool((np.floor(known) == known).all()) and not bool(((known == 0) & np.signbit(known)).any())

    @property
    def identifies_rows(self) -> bool:
        """Whether the column names or numbers the rows."""
        if plain(self.name) in ID_NAMES or self.table.count < ENOUGH_ROWS:
            return plain(self.name) in ID_NAMES
        if self.numbers is None:
            return len(self.counts) > NEARLY_ALL * self.table.count
        return self.whole and bool((np.diff(self.numbers) == 1).all())


Columns = Mapping[str, Profile]


def must_have(table: RawTable, named: Iterable[tuple[str, str | None]]) -> None:
    """Raise a DataError unless the table has the columns that options name, if they do."""
    for option, name in named:
        if name is not None and name not in table.names:
            raise DataError(f"{table.source}: {option}: {unknown('column', name, table.names)}")


@dataclass(frozen=True)
class InputLayout:
    """Features in the order of the model's inputs, and the guesses about them."""

    features: tuple[Feature, ...]
    guesses: tuple[Guess, ...] = ()


def layouts(columns: Columns, taken: Signature, protected: Sequence[str] = ()) -> list[InputLayout]:
    """Return every layout of these columns that has the form of the model's inputs, the likeliest first.

    A flat network may have been trained without the protected columns: those named, or those whose names say so.
    """
    if taken.frame:
        filled_by = {taken.column(name): name for name in columns}
        lost = [name for name in taken.columns if name not in filled_by]
        if lost:
            raise ModelError(COLUMNS_NOT_IN_TABLE.format(name=taken.name, lost=listed(lost)))
        names = [filled_by[name] for name in taken.columns] or list(columns)
        features = tuple(_as_spelled(frame_feature(columns[name]), columns[name]) for name in names)
        return [InputLayout(features, _about_left(columns, names))]
    matched = match_inputs(columns, taken)
    if matched is None and taken.inputs and taken.inputs[0].text:
        if taken.inputs[0].width not in (None, len(columns)):
            return []
        text = f"Guess: the columns fill the input {shown(taken.inputs[0].name)} in the order of the table."
        features = tuple(_as_spelled(category(profile), profile) for profile in columns.values())
        return [InputLayout(features, (Guess("feature", text),))]
    if matched is None or len(matched) < len(taken.inputs):
        found = list(_by_width(columns, taken, matched or {}, protected))
        if matched is not None and not found:
            lost = [each.name for each in taken.inputs if each not in matched.values()]
            raise ModelError(
                NO_COLUMN_FOR_INPUT.format(name=taken.name, lost=listed(lost), columns=listed(list(columns)))
            )
        return found
    features = tuple(
        _filling(_as_spelled(category(columns[name]), columns[name]) if each.text else feature_of(columns[name]), each)
        for name, each in matched.items()
    )
    numbers = [feature for feature in features if not matched[feature.name].text]
    return [InputLayout(features, (*_about_left(columns, matched), *_about_codes(columns, numbers, taken)))]


def _about_left(columns: Columns, used: Iterable[str]) -> tuple[Guess, ...]:
    left = [name for name in columns if name not in used]
    return (Guess("feature", f"Columns that the model does not take: {listed(left)}."),) if left else ()


def _filling(feature: Feature, each: Input) -> Feature:
    """Return the feature as one that fills this input; the name of the input is stated if it is another."""
    return feature if feature.name == each.name else replace(feature, input=each.name)


def match_inputs(columns: Columns, taken: Signature) -> dict[str, Input] | None:
    """Return the input that each column fills by its name, in the order of the inputs; None if there is one input.

    Exporters change `hours-per-week` into `hours_per_week`, so names may differ in spelling.
    """
    found: dict[str, Input] = {}
    for each in taken.inputs:
        similar = [each.name] if each.name in columns else [name for name in columns if plain(name) == plain(each.name)]
        if len(similar) == 1 and similar[0] not in found:
            found[similar[0]] = each
    return None if len(taken.inputs) < 2 and not (found and taken.inputs[0].width == 1) else found


def _kept_columns(columns: Columns, protected: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Return the columns that may be inputs: all, then without those that number the rows or are protected."""
    identifiers = {name for name, profile in columns.items() if profile.identifies_rows}
    likely = like_protected(columns)
    blind = [set[str](), set(protected), set(likely), *({name} for name in likely)]
    left_out = [*blind[:1], identifiers, *blind[1:], *(identifiers | each for each in blind[1:])]
    return dict.fromkeys(tuple(name for name in columns if name not in each) for each in left_out)


def _by_width(
    columns: Columns, taken: Signature, matched: Mapping[str, Input], protected: Sequence[str]
) -> Iterator[InputLayout]:
    """Yield the layouts in which columns fill the inputs that are not called like one, by their kind and number."""
    columns = {name: profile for name, profile in columns.items() if profile.counts or name in matched}
    seen: list[tuple[Feature, ...]] = []
    for names in _kept_columns(columns, protected):
        several = len(taken.inputs) > 1
        found = _shared(columns, names, taken.inputs, matched) if several else _flat(columns, names, taken.inputs)
        for features, told in found:
            if not features or features in seen:
                continue
            seen.append(features)
            left = [name for name in columns if name not in {feature.name for feature in features}]
            about = [Guess("feature", told)]
            if left:
                text = f"Guess: not inputs, since the network takes fewer values: {listed(left)}."
                about.append(Guess("feature", text))
            yield InputLayout(features, (*about, *_about_codes(columns, features, taken)))


def _flat(columns: Columns, names: Sequence[str], inputs: Sequence[Input]) -> Iterator[tuple[tuple[Feature, ...], str]]:
    """Yield the features of one flat input: categories as codes or one-hot, in the table's order or kind by kind."""
    width = inputs[0].width if inputs else None
    texts = tuple(name for name in names if columns[name].numbers is None)
    others = tuple(name for name in names if name not in texts)
    several = tuple(name for name in texts if len(columns[name].counts) > 2)
    for one_hot, keep_markers in product(dict.fromkeys(((), texts, several)), (True, False)):
        made = {name: feature_of(columns[name], keep_markers=keep_markers) for name in names}
        made |= {name: replace(made[name], one_hot=True) for name in one_hot}
        if width not in (None, sum(widths(tuple(made.values())))):
            continue
        for order in dict.fromkeys((tuple(names), others + texts, texts + others)) if one_hot else (names,):
            what = "the columns of the table" if order == names else "one kind of columns first"
            told = f"Guess: the inputs, which the network does not name, are {what}, in this order."
            yield tuple(made[name] for name in order), told


def _shared(
    columns: Columns, names: Sequence[str], inputs: Sequence[Input], matched: Mapping[str, Input]
) -> Iterator[tuple[tuple[Feature, ...], str]]:
    """Yield the features of several inputs: one free input takes the categories, another the numbers.

    Which is which follows from its name and its number type, or is tried. A single one takes them all, or one kind.
    """
    free = [each for each in inputs if each not in matched.values()]
    if len(free) > 2 or any(each.text for each in free):
        return
    others = [name for name in names if name not in matched]
    words = [name for name in others if columns[name].numbers is None]
    numbers = [name for name in others if name not in words]
    shares = [(others,), (numbers,), (words,)] if len(free) == 1 else [(words, numbers), (numbers, words)]

    def likeness(share: Sequence[Sequence[str]]) -> int:
        """Return how many inputs are said, by their type or name, to take the kind of columns that they get here."""
        count = 0
        for each, part in zip(free, share, strict=True):
            starts = [word.startswith(WORD_INPUTS) - word.startswith(NUMBER_INPUTS) for word in words_of(each.name)]
            categories = bool(part) and all(name in words for name in part)
            count += (each.whole or 1 in starts) if categories else -1 in starts
        return count

    for share in sorted(shares, key=likeness, reverse=True):
        filled = {**matched, **{name: each for each, part in zip(free, share, strict=True) for name in part}}
        features = tuple(_filling(feature_of(columns[name]), filled[name]) for name in names if name in filled)
        sizes = [sum(widths([feature for feature in features if feature.name in part])) for part in share]
        fits = all(each.width in (None, size) for each, size in zip(free, sizes, strict=True))
        # A single column in place of one that is not there is a mistake.
        if fits and all(len(part) > bool(matched) for part in share):
            told = "; ".join(f"{listed(part)} fill {shown(each.name)}" for each, part in zip(free, share, strict=True))
            yield features, f"Guess: columns share inputs by their kind and number: {told}."


def _about_codes(columns: Columns, features: Sequence[Feature], taken: Signature) -> Iterator[Guess]:
    """Yield the notes about the order of categories, which a network does not state, and a warning if it is guessed.

    No row shows that a guessed order is the one of the training data.
    """
    guessed = []
    for feature in features:
        if not isinstance(feature, CategoryFeature) or (len(feature.values) < 2 and feature.codes is not None):
            continue
        profile, key = columns[feature.name], f"feature.{feature.name}"
        takes = "has one input for each value" if feature.one_hot else "takes a number, and the values are 0, 1, ..."
        order = f"Guess: the network {takes}, in sorted order of the {len(feature.values)} values in this table."
        if profile.stated is not None:
            whose = "the encoder's order" if profile.known is not None else "the order of the column's type"
            order = f"The network {takes}, in {whose}, which states {len(profile.stated)} values."
        elif len(feature.values) > 1:
            guessed.append(feature.name)
        yield Guess(key, order)
        gone = [text for text in profile.markers if text not in feature.values]
        if gone:
            yield Guess(key, f"Guess: {listed(gone)} is a missing value.")
    if guessed and taken.source is not None:
        yield Guess("feature", CODES_GUESSED.format(listed(guessed)), loud=True)


def _ends(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest number, without missing ones."""
    return float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))


def frame_feature(profile: Profile) -> Feature:
    """Return the feature that a column of a frame is: texts remain texts, also those that look like numbers."""
    cells = profile.table.cells(profile.name)
    if isinstance(cells, NumberCells):
        return feature_of(profile)
    texts = profile.typed or (bool(profile.known) and all(isinstance(each, str) for each in profile.known or ()))
    # A file of texts does not tell True from "True".
    if profile.counts and set(profile.counts) <= {"True", "False"} and (cells.booleans or not texts):
        made = category(profile)
        return replace(made, codes=tuple(int(value == "True") for value in made.values))
    return category(profile) if texts else feature_of(profile)


def _as_spelled(feature: Feature, profile: Profile) -> Feature:
    """Return a feature that a model gets as texts with the blanks that its cells have around them."""
    if not isinstance(feature, CategoryFeature) or feature.codes is not None:
        return feature
    cells = profile.spellings
    aliases = tuple(cells.get(str(value), value) for value in feature.values)
    return feature if aliases == feature.values else replace(feature, aliases=aliases)


def feature_of(profile: Profile, *, keep_markers: bool = True) -> Feature:
    """Return the feature that a column is for a network that takes numbers."""
    if profile.numbers is None:
        return category(profile, keep_markers=keep_markers)
    low, high = _ends(profile.numbers)
    if profile.whole and high - low < MOST_VALUES and max(abs(low), abs(high)) <= MOST_EXACT:
        return IntegerFeature(name=profile.name, low=int(low), high=int(high))
    if low == high == 0 and not profile.whole:
        # 0.0 and -0.0, which are two values.
        low, high = -1.0, 1.0
    if low == high:
        # A real number needs a range; one value with its code is exact.
        made = category(profile, keep_markers=False)
        return replace(made, codes=(low,) * len(made.values))
    return RealFeature(name=profile.name, low=low, high=high)


def category(profile: Profile, *, keep_markers: bool = True) -> CategoryFeature:
    """Return the column as a category; with `keep_markers` a text such as "?" is a value like others."""
    values = [each for each in profile.texts if keep_markers or each not in profile.markers]
    source, name = profile.table.source, shown(profile.name)
    if not values:
        raise DataError(EMPTY_COLUMN.format(source=source, name=name))
    if len(values) > MOST_CATEGORIES:
        raise DataError(TOO_MANY_CATEGORIES.format(source=source, name=name, values_count=len(values)))
    return CategoryFeature(name=profile.name, values=tuple(values))


def misfit(columns: Columns, taken: Signature, label: str | None) -> ModelError:
    """Return the error if no layout has the width of the network's input."""
    if not columns or not taken.inputs:
        return ModelError(ONLY_A_LABEL.format(name=taken.name))
    texts = [profile for profile in columns.values() if profile.numbers is None]
    spread = len(columns) - len(texts) + sum(len(profile.counts) for profile in texts)
    besides = f'besides the label "{label}" ' if label is not None else ""
    wide = f" ({spread} with one input for each value of a text column)" if texts else ""
    return ModelError(
        f"{taken.name}: takes {taken.inputs[0].width} values and the table has {len(columns)} columns {besides}"
        f"to fill them{wide}: {listed(list(columns))}; leave out other columns with --ignore (ignore=[...]), "
        "name the label with --label (label=...), or give a table with the columns that the network was trained on"
    )
