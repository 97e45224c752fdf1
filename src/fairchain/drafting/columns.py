"""Features from the columns of a table: which column fills which input of the model, and how it is encoded.

Names of inputs or columns leave one layout. A network with one flat input names nothing, so several layouts may have
its width; the true labels of the rows choose among them (`trials`).
"""

from __future__ import annotations

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
from fairchain.messages import listed, shown
from fairchain.models.file_frames import are_texts
from fairchain.models.frames import CELLS_ALIKE
from fairchain.models.onnx.feature_encoding import widths
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature
from fairchain.spec.population_keys import NA_VALUES
from fairchain.spec.validate import MOST_EXACT, MOST_FEATURE_VALUES
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
WORD_INPUTS = ("cat", "word", "code", "emb", "ids", "token", "discrete")
NUMBER_INPUTS = ("num", "cont", "real", "dense")
# A text column is an identifier if so many of its cells differ, in a table with enough rows.
NEARLY_ALL, ENOUGH_ROWS = 0.9, 50
CODES_GUESSED = (
    "The order of the values of {} is a guess, and no row shows whether the network was trained with it. State that "
    "order, or codes = [...], in each [[feature]], or give a table whose columns have a category type."
)
COLUMNS_NOT_IN_TABLE = (
    "{name}: was fitted on columns that are not among the inputs in the table: {lost}; give the table that it was "
    "fitted on, rename the columns, or name another column as the label"
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
WIDTH_DIFFERS = (
    "{name}: takes {width} values and the table has {count} columns {besides}to fill them{wide}: {columns}; leave out "
    "other columns with --ignore (ignore=[...]), name the label with --label (label=...), or give a table with the "
    "columns that the network was trained on"
)


def words_of(name: str) -> list[str]:
    """Return the words in a name: of `MaritalStatus`, `marital-status` and `marital_status` the same two.

    >>> words_of("MaritalStatus"), words_of("native-country"), words_of("ageGroup2")
    (['marital', 'status'], ['native', 'country'], ['age', 'group', '2'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_A-Za-z]+", name)]


def underscored(name: str) -> str:
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


def is_typed(table: RawTable) -> bool:
    """Return whether a table tells the text "1" from the number 1, as frames and Parquet do and CSV does not."""
    return table.frame is not None or (table.path is not None and table.path.suffix.lower() == ".parquet")


@dataclass(frozen=True, eq=False)
class Profile:
    """Contents of one column; `known` are the values on which the model was fitted, in their order, None if unknown."""

    table: RawTable
    name: str
    known: tuple[Any, ...] | None = None

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The cells as numbers, NaN where one is missing; None if another cell is not a finite number."""
        found = self.table.numeric(self.name)
        known = () if found is None else found[~np.isnan(found)]
        return found if len(known) and np.isfinite(known).all() else None

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of rows with each text, the empty one left out."""
        return self.table.counts(self.name)

    @cached_property
    def stated(self) -> dict[str, str]:
        """The values that the column's type states, then those that the model was fitted on, as they are written."""
        found: dict[str, str] = {}
        texts = (str, bool, np.bool_)
        fitted = (str(each) if isinstance(each, texts) else number_text(each) for each in self.known or ())
        for cell in (*(self.table.categories(self.name) or ()), *fitted):
            found.setdefault(cell.strip(), cell)
        return found

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
        return self.stated | found

    @cached_property
    def texts(self) -> list[str]:
        """The stated values, then the other cells as most encoders order them: numbers by size, texts by letters."""
        numbers = {text: parse_number(text) for text in self.counts}
        by_size = None not in numbers.values()
        ordered = sorted(numbers, key=lambda text: numbers[text] or 0.0) if by_size else sorted(numbers)
        return list(dict.fromkeys((*self.stated, *ordered)))

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
        known = self.numbers[~np.isnan(self.numbers)]
        return bool((np.floor(known) == known).all()) and not bool(((known == 0) & np.signbit(known)).any())

    @property
    def identifies_rows(self) -> bool:
        """Whether the column names or numbers the rows."""
        if underscored(self.name) in ID_NAMES or self.table.count < ENOUGH_ROWS:
            return underscored(self.name) in ID_NAMES
        if self.numbers is None:
            return len(self.counts) > NEARLY_ALL * self.table.count
        return self.whole and bool((np.diff(self.numbers) == 1).all())


Columns = Mapping[str, Profile]


def number_feature(profile: Profile, *, keep_markers: bool = True) -> Feature:
    """Return the feature that a column is for a network that takes numbers; texts become codes."""
    if profile.numbers is None:
        return category(profile, keep_markers=keep_markers)
    low, high = float(np.nanmin(profile.numbers)), float(np.nanmax(profile.numbers))
    if profile.whole and high - low < MOST_FEATURE_VALUES and max(abs(low), abs(high)) <= MOST_EXACT:
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
    values = tuple(each for each in profile.texts if keep_markers or each not in NA_VALUES)
    source, name = profile.table.source, shown(profile.name)
    if not values:
        raise DataError(EMPTY_COLUMN.format(source=source, name=name))
    if len(values) > MOST_CATEGORIES:
        raise DataError(TOO_MANY_CATEGORIES.format(source=source, name=name, values_count=len(values)))
    return CategoryFeature(name=profile.name, values=values)


def frame_feature(profile: Profile) -> Feature:
    """Return the feature that a column of a frame is: texts remain texts, also those that look like numbers."""
    cells = profile.table.cells(profile.name)
    if isinstance(cells, NumberCells):
        return number_feature(profile)
    texts = is_typed(profile.table) or are_texts(profile.known)
    # A file of texts does not tell True from "True".
    if profile.counts and set(profile.counts) <= {"True", "False"} and (cells.booleans or not texts):
        made = category(profile)
        return replace(made, codes=tuple(int(value == "True") for value in made.values))
    return category(profile) if texts else number_feature(profile)


def _as_spelled(feature: Feature, profile: Profile) -> Feature:
    """Return a feature that a model gets as texts with the blanks that its cells have around them."""
    if not isinstance(feature, CategoryFeature) or feature.codes is not None:
        return feature
    cells = profile.spellings
    aliases = tuple(cells.get(str(value), value) for value in feature.values)
    return feature if aliases == feature.values else replace(feature, aliases=aliases)


def layouts(columns: Columns, taken: Signature, protected: Sequence[str] = ()) -> list[tuple[Feature, ...]]:
    """Return the features that have the form of the model's inputs, in their order; the likeliest layout first.

    A flat network may have been trained without the protected columns: those named, or those whose names say so.
    """
    if taken.frame:
        filled_by = {taken.fitted.column(name): name for name in columns}
        lost = [name for name in taken.columns if name not in filled_by]
        if lost:
            raise ModelError(COLUMNS_NOT_IN_TABLE.format(name=taken.name, lost=listed(lost)))
        used = [columns[filled_by[name]] for name in taken.columns] or columns.values()
        return [tuple(_as_spelled(frame_feature(profile), profile) for profile in used)]
    matched = match_inputs(columns, taken)
    free = [each for each in taken.inputs or (Input("input", False, None),) if each not in matched.values()]
    flat = len(taken.inputs) < 2 and not matched
    rest = {name: profile for name, profile in columns.items() if free and name not in matched and profile.counts}
    found: list[tuple[Feature, ...]] = []
    # All columns may be inputs, or those that do not number the rows or are not protected.
    left_out = [set[str]()]
    if free and not free[0].text:
        identifiers, likely = {name for name, profile in rest.items() if profile.identifies_rows}, like_protected(rest)
        blind = [set(protected), set(likely), *({name} for name in likely)]
        left_out += [identifiers, *blind, *(identifiers | each for each in blind)]
    for kept in dict.fromkeys(tuple(name for name in rest if name not in each) for each in left_out):
        for share in [(kept,)[: len(free)]] if flat or not free else _shares(columns, kept, free):
            # A single column in place of one that is not there is a mistake.
            if all(len(part) > bool(matched) for part in share):
                filled = {**matched, **{name: each for each, part in zip(free, share, strict=True) for name in part}}
                ordered = {name: filled[name] for name in columns if name in filled} if free else filled
                for features in _encodings(columns, ordered, free, flat=flat):
                    if features not in found:
                        found.append(features)
    if not found and len(taken.inputs) > 1:
        missing = {"lost": listed([each.name for each in free]), "columns": listed(list(columns))}
        raise ModelError(NO_COLUMN_FOR_INPUT.format(name=taken.name, **missing))
    return found


def match_inputs(columns: Columns, taken: Signature) -> dict[str, Input]:
    """Return the input that each column fills by its name, in the order of the inputs; a wide one takes no name.

    Exporters change `hours-per-week` into `hours_per_week`, so names may differ in spelling.
    """
    found: dict[str, Input] = {}
    for each in taken.inputs:
        similar = [name for name in columns if name == each.name]
        similar = similar or [name for name in columns if underscored(name) == underscored(each.name)]
        if len(similar) == 1 and similar[0] not in found and (len(taken.inputs) > 1 or each.width == 1):
            found[similar[0]] = each
    return found


def _shares(columns: Columns, names: Sequence[str], free: Sequence[Input]) -> list[tuple[Sequence[str], ...]]:
    """Return which of these columns each free input may take, the likeliest first.

    Of two inputs one takes the categories and the other the numbers: which is which follows from their names and number
    types, or is tried. One beside named inputs takes all columns, or one kind of them.
    """
    if len(free) > 2 or any(each.text for each in free):
        return []
    words = [name for name in names if columns[name].numbers is None]
    numbers = [name for name in names if name not in words]

    def fits(each: Input, part: Sequence[str]) -> bool:
        """Return whether an input's type or name says that it takes this kind of columns."""
        categories = set(part) <= set(words)
        starts = WORD_INPUTS if categories else NUMBER_INPUTS
        return (categories and each.whole) or any(word.startswith(starts) for word in words_of(each.name))

    one, two = [(names,), (numbers,), (words,)], [(words, numbers), (numbers, words)]
    return sorted(one if len(free) == 1 else two, key=lambda share: sum(map(fits, free, share)), reverse=True)


def _encodings(
    columns: Columns, filled: Mapping[str, Input], free: Sequence[Input], *, flat: bool
) -> Iterator[tuple[Feature, ...]]:
    """Yield features that have the widths of the free inputs.

    Of a flat input categories may be codes or one-hot, in the table's order or kind by kind.
    """
    texts = [name for name, each in filled.items() if columns[name].numbers is None and not each.text]
    others = [name for name in filled if name not in texts]
    several = [name for name in texts if len(columns[name].counts) > 2]
    for one_hot, keep_markers in product(([], texts, several), (True, False)) if flat else [([], True)]:
        made: dict[str, Feature] = {}
        for name, each in filled.items():
            profile = columns[name]
            text = _as_spelled(category(profile), profile) if each.text else None
            feature = text or number_feature(profile, keep_markers=keep_markers)
            feature = replace(feature, one_hot=True) if name in one_hot else feature
            made[name] = feature if flat or name == each.name else replace(feature, input=each.name)
        sizes = [sum(widths([made[name] for name in filled if filled[name] == each])) for each in free]
        if all(each.width in (None, size) for each, size in zip(free, sizes, strict=True)):
            for order in (filled, others + texts, texts + others) if one_hot else (filled,):
                yield tuple(made[name] for name in order)


def about_layout(columns: Columns, taken: Signature, features: Sequence[Feature]) -> list[Guess]:
    """Return what is guessed about which column is which input, and about the order of categories.

    A network does not state that order, and no row shows that a guessed one is that of the training data.
    """
    matched = match_inputs(columns, taken)
    free = [each for each in taken.inputs if each not in matched.values()]
    named = taken.frame or (bool(matched) and not free)
    told, guessed, names = list[Guess](), list[str](), [feature.name for feature in features]
    if free and len(taken.inputs) > 1:
        parts = {each.name: [feature.name for feature in features if feature.input == each.name] for each in free}
        shares = "; ".join(f"{listed(part)} fill {shown(name)}" for name, part in parts.items())
        told.append(Guess("feature", f"Guess: columns share inputs by their kind and number: {shares}."))
    elif not named:
        in_order = names == [name for name in columns if name in names]
        order = "the columns of the table" if in_order else "one kind of columns first"
        text = f"Guess: the inputs, which the network does not name, are {order}, in this order."
        told.append(Guess("feature", text))
    left = [name for name, profile in columns.items() if name not in names and (named or profile.counts)]
    if left:
        fewer = "Guess: not inputs, since the network takes fewer values"
        why = "Columns that the model does not take" if named else fewer
        told.append(Guess("feature", f"{why}: {listed(left)}."))
    for feature in () if taken.frame else features:
        filled = matched.get(feature.name) or next(iter(free), None)
        if not isinstance(feature, CategoryFeature) or (filled is not None and filled.text):
            continue
        if len(feature.values) < 2 and feature.codes is not None:
            continue  # a number that does not vary
        profile, key = columns[feature.name], f"feature.{feature.name}"
        takes = "has one input for each value" if feature.one_hot else "takes a number, and the values are 0, 1, ..."
        text = f"Guess: the network {takes}, in sorted order of the {len(feature.values)} values in this table."
        if profile.stated:
            whose = "the encoder's order" if profile.known is not None else "the order of the column's type"
            text = f"The network {takes}, in {whose}, which states {len(profile.stated)} values."
        elif len(feature.values) > 1:
            guessed.append(feature.name)
        told.append(Guess(key, text))
        gone = [text for text in profile.texts if text in NA_VALUES and text not in feature.values]
        if gone:
            told.append(Guess(key, f"Guess: {listed(gone)} is a missing value."))
    if guessed and taken.source is not None:
        told.append(Guess("feature", CODES_GUESSED.format(listed(guessed)), loud=True))
    return told
