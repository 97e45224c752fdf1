"""The features of a spec, [[feature]]: numbers, categories and texts, their groups and their encoding."""

import builtins
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairchain.spec.keys import Number, Positive, Strict, Text, doc

# Number of words of a text that a network may read.
MOST_TEXT_LENGTH = 10_000


class Members(Strict, frozen=True, kw_only=True):
    """One group of a feature, as a set of values or as a range that includes both ends."""

    values: Annotated[tuple[Number | str, ...] | None, doc("The values of the group.")] = None
    low: Annotated[Number | None, doc("Lowest value of the group.")] = None
    high: Annotated[Number | None, doc("Highest value of the group.")] = None


# A number or a name is one value; a list is a range [low, high] of numbers or a set of names.
GroupExpr = Number | str | tuple[Number | str, ...] | Members


class _Feature(Strict, frozen=True, kw_only=True):
    name: Annotated[Text, doc("Name of the feature in groups, conditions and results.")]
    input: Annotated[
        Text | None, doc("Name of the network input that takes this feature, if the network has several inputs.")
    ] = None
    groups: Annotated[
        dict[str, GroupExpr],
        doc(
            "Name and values of each group: one value, a range [low, high], a list of names, {values = [...]}, or "
            "{low = ..., high = ...}."
        ),
    ] = msgspec.field(default_factory=dict)
    model_input: Annotated[
        bool,
        doc("Whether the model receives this feature. Set false for a feature that only defines groups or conditions."),
    ] = True
    column: Annotated[
        Text | None, doc("Column of this feature in a table, if the column has another name than the feature.")
    ] = None
    missing: Annotated[
        Number | str | None,
        doc(
            "Value that replaces missing values of the feature in a table. Without this key, drop_missing and "
            "keep_missing in [population] determine the treatment of missing values."
        ),
    ] = None


class Scale(Strict, frozen=True, kw_only=True):
    """Scaling of a number for the network: (x - mean) / std, or (x - low) / (high - low)."""

    mean: Annotated[float | None, doc("Mean, which is subtracted from the number.")] = None
    std: Annotated[
        Positive | None, doc("Standard deviation, by which the number is divided after the mean is subtracted.")
    ] = None
    low: Annotated[float | None, doc("Number that the network receives as 0.")] = None
    high: Annotated[float | None, doc("Number that the network receives as 1.")] = None


class _Number(_Feature, frozen=True, kw_only=True):
    """A number in the user's units, and its encoding for the network."""

    clip: Annotated[bool, doc("Replace values of a table below `low` by `low`, and values above `high` by `high`.")] = (
        False
    )
    step: Annotated[
        Positive | None,
        doc("The network receives the value divided by the step, rounded down: with step = 10, age 39 becomes 3."),
    ] = None
    bins: Annotated[
        tuple[Number, ...] | None,
        doc(
            "Edges between bins. The network receives the index of the bin, which is the number of edges less than or "
            "equal to the value."
        ),
    ] = None
    one_hot: Annotated[
        bool,
        doc("If true, the network has one input for each bin: 1 for the bin of the value, 0 for all others."),
    ] = False
    scale: Annotated[Scale | None, doc("Scaling of the number for the network.")] = None


class IntegerFeature(_Number, tag_field="kind", tag="integer", frozen=True, kw_only=True):
    """Whole numbers from low to high, both ends included."""

    low: Annotated[int, doc("Lowest value, included.")]
    high: Annotated[int, doc("Highest value, included.")]


class RealFeature(_Number, tag_field="kind", tag="real", frozen=True, kw_only=True):
    """Real numbers between low and high."""

    low: Annotated[float, doc("Lower end.")]
    high: Annotated[float, doc("Upper end.")]


class CategoryFeature(_Feature, tag_field="kind", tag="category", frozen=True, kw_only=True):
    """One of several named values. By default, a network with numeric inputs receives 0, 1, ... in the order of
    `values`.
    """

    values: Annotated[tuple[Text | int, ...], doc("Names of the values, in order.", min_length=1)]
    codes: Annotated[
        tuple[Number, ...] | None,
        doc("Numbers that the network receives instead of 0, 1, ..., in the order of `values`."),
    ] = None
    one_hot: Annotated[
        bool,
        doc("If true, the network has one input for each value: 1 for the actual value, and 0 for every other value."),
    ] = False
    aliases: Annotated[
        tuple[Text | int, ...] | None,
        doc("Names of the values in a table, in the order of `values`, if the table uses other names."),
    ] = None
    terms: Annotated[
        Text | dict[str, tuple[Text, ...]] | None,
        doc(
            "Terms by which a text mentions each value: a built-in list (religion, race or gender), a .toml or .json "
            "file, or a table. A feature with terms is not an input of the network."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Set `model_input` to False for a feature with terms: it is determined by the text, and has no input."""
        if self.terms is not None:
            msgspec.structs.force_setattr(self, "model_input", False)


class TextFeature(Strict, tag_field="kind", tag="text", frozen=True, kw_only=True):
    """A text. With `vectors` or `vocabulary`, the model receives the words of the text. Otherwise, the model receives
    the unchanged text.

    All other keys except `name` need `vectors` or `vocabulary`.
    """

    name: Annotated[Text, doc("Name of the text in results.")]
    input: Annotated[
        Text | None, doc("Name of the network input that takes the words, if the network has several inputs.")
    ] = None
    length: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TEXT_LENGTH)] | None,
        doc(
            "Number of words that the network reads. Longer texts are truncated. This key is required with vectors or "
            "vocabulary."
        ),
    ] = None
    vectors: Annotated[
        Text | None,
        doc(
            "Word vectors, for a network that takes vectors: glove, or a file (.txt, .vec, .bin, or .npy with a list "
            "of words beside it)."
        ),
    ] = None
    vocabulary: Annotated[
        Text | None,
        doc("File with one word on each line, for a network that takes word indices. The first word has the index 0."),
    ] = None
    pad: Annotated[Literal["right", "left"], doc("The end at which a short text is padded.")] = "right"
    unknown: Annotated[
        Text,
        doc("Word that replaces unknown words, for example `<unk>`. With skip, unknown words are left out."),
    ] = "skip"
    padding: Annotated[
        Text | None,
        doc(
            "For a vocabulary: the word whose index pads short texts. By default, fairchain looks for `<pad>`, "
            "`[PAD]` or an empty line in the vocabulary."
        ),
    ] = None
    layout: Annotated[
        Literal["batch", "time"] | None,
        doc(
            "First axis of the network's input. By default, fairchain tries both layouts and uses the first one that "
            "the network accepts."
        ),
    ] = None
    lengths: Annotated[
        Text | None,
        doc(
            "Name of the network input for the number of words. By default, fairchain recognises the input by its "
            "shape."
        ),
    ] = None
    mask: Annotated[
        Text | None,
        doc(
            "Name of the network input with 1 for a word and 0 for padding. By default, fairchain recognises the "
            "input by its shape."
        ),
    ] = None

    @builtins.property
    def raw(self) -> bool:
        """Whether the model gets unchanged texts: no list of words is stated."""
        return self.vectors is None and self.vocabulary is None

    @builtins.property
    def steps(self) -> int:
        """The number of words that a network reads."""
        assert self.length is not None
        return self.length


# Features with values to draw; a text is drawn from a corpus.
Feature = IntegerFeature | RealFeature | CategoryFeature
