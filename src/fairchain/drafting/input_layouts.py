"""Features from columns: which column fills which input of the model, and how.

Where inputs or columns have names there is one way. A network with one flat input does not say what stands where, so
there are several layouts of the right width; the rows' own labels choose among them (see `trial`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from msgspec.structs import replace

from fairchain.drafting.draft_result import Guess
from fairchain.drafting.model_signature import Input, Signature
from fairchain.drafting.name_hints import like_protected, plain
from fairchain.drafting.profile import Profile
from fairchain.errors import DataError, ModelError
from fairchain.messages import MOST_LISTED, shown
from fairchain.models.onnx.encoding import widths
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature
from fairchain.spec.validate import MOST_EXACT, MOST_VALUES

Columns = Mapping[str, Profile]
MOST_CATEGORIES = 5000


@dataclass(frozen=True)
class InputLayout:
    """Features in the order of the model's inputs, and what was guessed about them."""

    features: tuple[Feature, ...]
    guesses: tuple[Guess, ...] = ()


@dataclass(frozen=True)
class _Way:
    """How a flat input may be filled: from which columns, in which order, categories how."""

    columns: tuple[str, ...]
    one_hot: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


def layouts(columns: Columns, taken: Signature, protected: Sequence[str] = ()) -> list[InputLayout]:
    """Every way in which these columns can be what the model takes, the likeliest first; none fits: no layouts.

    A flat network may have been trained without the protected columns: those named, or those whose names say so.
    """
    if taken.frame:
        names = _known(columns, taken.columns, taken) or tuple(columns)
        return [_made([columns[name] for name in names], _left_out(columns, names))]
    matched = match_inputs(columns, taken)
    if matched is not None:
        return [_by_name(columns, matched)]
    flat = taken.inputs[0] if taken.inputs else None
    if flat is not None and flat.text:
        return [_texts(columns, flat)] if flat.width in (None, len(columns)) else []
    return list(_fitting(columns, flat.width if flat is not None else None, protected))


def match_inputs(columns: Columns, taken: Signature) -> dict[str, Input] | None:
    """The input that each column fills, in the order of the inputs; None if the inputs are not one for each column."""
    inputs = taken.inputs
    if len(inputs) < 2 and not (inputs and inputs[0].width == 1 and _column_for(inputs[0], columns)):
        return None
    found: dict[str, Input] = {}
    lost = []
    for each in inputs:
        name = _column_for(each, columns)
        if name is None or name in found:
            lost.append(each.name)
        else:
            found[name] = each
    if lost:
        raise ModelError(
            f"{taken.name}: no column of the table is called like {_listed(lost)}, and the network has one input for "
            f"each column; the columns are {_listed(list(columns))}: rename those that are meant"
        )
    return found


def _column_for(each: Input, columns: Columns) -> str | None:
    """The column an input is called after, also where an exporter changed `hours-per-week` into `hours_per_week`."""
    if each.name in columns:
        return each.name
    similar = [name for name in columns if plain(name) == plain(each.name)]
    return similar[0] if len(similar) == 1 else None


def _known(columns: Columns, wanted: tuple[str, ...], taken: Signature) -> tuple[str, ...]:
    lost = [name for name in wanted if name not in columns]
    if lost:
        raise ModelError(
            f"{taken.name}: was fitted on columns that the table does not have: {_listed(lost)}; "
            "give the table that it was fitted on, or rename the columns"
        )
    return wanted


def _by_name(columns: Columns, matched: Mapping[str, Input]) -> InputLayout:
    features: list[Feature] = []
    guesses = [*_left_out(columns, tuple(matched))]
    for name, each in matched.items():
        profile = columns[name]
        filled = each.name if each.name != name else None
        if each.text:
            features.append(category(profile, text=True, filled=filled))
        else:
            features.append(feature_of(profile, filled=filled))
            guesses += _about_codes(profile, features[-1])
    return InputLayout(tuple(features), tuple(guesses))


def _left_out(columns: Columns, names: Sequence[str]) -> tuple[Guess, ...]:
    left = [name for name in columns if name not in names]
    return (Guess("feature", f"Columns that the model does not take: {_listed(left)}."),) if left else ()


def _made(profiles: Iterable[Profile], guesses: tuple[Guess, ...] = ()) -> InputLayout:
    """A column of a frame is what it is there: texts stay texts, also those that could be read as numbers."""
    features: list[Feature] = []
    for profile in profiles:
        if profile.boolean:
            made = category(profile)
            features.append(replace(made, codes=tuple(int(value == "True") for value in made.values)))
        elif profile.typed and profile.written:
            features.append(category(profile))
        else:
            features.append(feature_of(profile))
    return InputLayout(tuple(features), guesses)


def _texts(columns: Columns, flat: Input) -> InputLayout:
    guess = Guess("feature", f"Guess: the columns fill the input {shown(flat.name)} in the order of the table.")
    return InputLayout(tuple(category(profile, text=True) for profile in columns.values()), (guess,))


def _fitting(columns: Columns, width: int | None, protected: Sequence[str]) -> Iterator[InputLayout]:
    """The layouts of a flat input that have the right width."""
    columns = {name: profile for name, profile in columns.items() if profile.counts}
    seen: list[tuple[Feature, ...]] = []
    for way in _ways(columns, protected):
        features = tuple(
            feature_of(columns[name], one_hot=name in way.one_hot, keep_markers=name not in way.without)
            for name in way.columns
        )
        if features and width in (None, sum(widths(features))) and features not in seen:
            seen.append(features)
            yield InputLayout(features, tuple(_about_way(columns, way, features)))


def _ways(columns: Columns, protected: Sequence[str]) -> Iterator[_Way]:
    numbering = {name for name, profile in columns.items() if profile.numbers_people}
    likely = like_protected(columns)
    blind = [set(protected) & set(columns), set(likely), *({name} for name in likely)]
    left = [set(), numbering, *blind, *(numbering | each for each in blind)]
    for names in dict.fromkeys(tuple(name for name in columns if name not in each) for each in left):
        texts = [name for name in names if columns[name].numbers is None]
        spread = frozenset(texts)
        wide = frozenset(name for name in texts if len(columns[name].counts) > 2)
        marked = frozenset(name for name in texts if columns[name].markers)
        others = tuple(name for name in names if name not in spread)
        orders = dict.fromkeys((names, others + tuple(texts), tuple(texts) + others))
        for one_hot, without in product(dict.fromkeys((frozenset[str](), spread, wide)), (frozenset[str](), marked)):
            for order in orders if one_hot else (names,):
                yield _Way(order, one_hot, without)


def _about_way(columns: Columns, way: _Way, features: Sequence[Feature]) -> Iterator[Guess]:
    in_order = [name for name in columns if name in way.columns] == list(way.columns)
    order = "the columns of the table" if in_order else "one kind of columns first"
    yield Guess("feature", f"Guess: the inputs, which the network does not name, are {order}, in this order.")
    left = [name for name in columns if name not in way.columns]
    if left:
        yield Guess("feature", f"Guess: no inputs, since the network takes fewer values: {_listed(left)}.")
    for name, feature in zip(way.columns, features, strict=True):
        yield from _about_codes(columns[name], feature)


def _about_codes(profile: Profile, feature: Feature) -> Iterator[Guess]:
    """Nobody can see in which order a network has the categories of a text column."""
    if not isinstance(feature, CategoryFeature) or (len(feature.values) < 2 and feature.codes is not None):
        return
    key = f"feature.{feature.name}"
    if feature.one_hot:
        yield Guess(key, "Guess: the network has one input for each value, in sorted order.")
    else:
        yield Guess(key, "Guess: the network takes a number, and the values are 0, 1, ... in sorted order.")
    gone = [text for text in profile.markers if text not in feature.values]
    if gone:
        yield Guess(key, f"Guess: {_listed(gone)} is a missing value.")


def unseen(profile: Profile) -> Feature:
    """A column that the model does not take, which only says who belongs to which group."""
    return replace(_made([profile]).features[0], unseen=True)


def feature_of(
    profile: Profile, *, one_hot: bool = False, keep_markers: bool = True, filled: str | None = None
) -> Feature:
    """The feature that a column is for a network that takes numbers."""
    numbers = profile.numbers
    if numbers is None:
        return category(profile, one_hot=one_hot, text=keep_markers, filled=filled)
    name, low, high = profile.name, profile.low, profile.high
    if profile.whole and high - low < MOST_VALUES and max(abs(low), abs(high)) <= MOST_EXACT:
        return IntegerFeature(name=name, low=int(low), high=int(high), input=filled)
    if low == high:
        # A real number needs a range; one value with its code is exact.
        made = category(profile, text=False, filled=filled)
        return replace(made, codes=(low,) * len(made.values))
    return RealFeature(name=name, low=low, high=high, input=filled)


def category(
    profile: Profile, *, text: bool = True, one_hot: bool = False, filled: str | None = None
) -> CategoryFeature:
    """The column as a category; with `text` what stands for "not known" is a value like others."""
    values = [each for each in profile.texts if text or each not in profile.markers]
    if not values:
        raise DataError(
            f"{profile.table.source}: column {shown(profile.name)} holds no value; "
            "fill it, or leave it out with --ignore (ignore=[...]) if the model does not take it"
        )
    if len(values) > MOST_CATEGORIES:
        raise DataError(
            f"{profile.table.source}: column {shown(profile.name)} holds {len(values):,} different texts, too many "
            "for a category; leave it out with --ignore (ignore=[...]), or put its values into groups"
        )
    return CategoryFeature(name=profile.name, values=tuple(values), one_hot=one_hot, input=filled)


def misfit(columns: Columns, taken: Signature, label: str | None) -> ModelError:
    """The message if no layout has the width of the network's input."""
    if not columns or not taken.inputs:
        return ModelError(f"{taken.name}: the table has no column to show it besides the label; give its inputs too")
    texts = [profile for profile in columns.values() if profile.numbers is None]
    spread = len(columns) - len(texts) + sum(len(profile.counts) for profile in texts)
    besides = f'besides the label "{label}" ' if label is not None else ""
    wide = f" ({spread} with one input for each value of a text column)" if texts else ""
    return ModelError(
        f"{taken.name}: takes {taken.inputs[0].width} values and the table has {len(columns)} columns {besides}"
        f"to fill them{wide}: {_listed(list(columns))}; leave out what is no input with --ignore (ignore=[...]), "
        "name the label with --label (label=...), or give a table with the columns that the network was trained on; "
        'for as = "sample" take rows that it was not fitted on'
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(shown(name) for name in names[:MOST_LISTED]) + more
