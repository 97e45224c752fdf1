"""The features of a spec, [[feature]]: numbers, categories and texts, their groups and their encoding."""

import builtins
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairchain.spec.keys import Number, Positive, Strict, Text, doc

# Number of words of a text that a network may read.
MOST_TEXT_LENGTH = 10_000


class Members(Strict, frozen=True, kw_only=True):
    """One group of a feature in long form: a set of values, or a range with both ends."""

    values: Annotated[tuple[Number | str, ...] | None, doc("The values of the group.")] = None
    low: Annotated[Number | None, doc("Lowest value of the group.")] = None
    high: Annotated[Number | None, doc("Highest value of the group.")] = None


# A number or a name is one value; a list is a range [low, high] of numbers or a set of names.
GroupExpr = Number | str | tuple[Number | str, ...] | Members


class _Feature(Strict, frozen=True, kw_only=True):
    name: Annotated[Text, doc("Name of the feature in groups, conditions and results.")]
    input: Annotated[Text | None, doc("Name of the network's input that takes this feature, if there are several.")] = (
        None
    )
    groups: Annotated[
        dict[str, GroupExpr], doc("Named groups: a value, a range [low, high], a list of names, or {values = [...]}.")
    ] = msgspec.field(default_factory=dict)
    model_input: Annotated[
        bool, doc("Whether the model takes this feature; false if it only defines groups or conditions.")
    ] = True
    column: Annotated[Text | None, doc("Column of this feature in a table, if it differs from the name.")] = None
    missing: Annotated[
        Number | str | None, doc("Value that replaces an empty cell of a table; without it, such a row is an error.")
    ] = None


class Scale(Strict, frozen=True, kw_only=True):
    """Scaling of a number for the network: (x - mean) / std, or (x - low) / (high - low)."""

    mean: Annotated[float | None, doc("Mean, which is subtracted first.")] = None
    std: Annotated[Positive | None, doc("Standard deviation, by which the difference is divided.")] = None
    low: Annotated[float | None, doc("Number that becomes 0.")] = None
    high: Annotated[float | None, doc("Number that becomes 1.")] = None


class _Number(_Feature, frozen=True, kw_only=True):
    """A number in the user's units, and its encoding for the network."""

    clip: Annotated[bool, doc("Replace values of a table beyond low and high by these limits.")] = False
    step: Annotated[
        Positive | None, doc("The network gets the number of whole steps: with step = 10, age 39 becomes 3.")
    ] = None
    bins: Annotated[
        tuple[Number, ...] | None,
        doc("The network gets the number of these edges that are at most the value: 0, 1, 2, ..."),
    ] = None
    one_hot: Annotated[bool, doc("One network input for each of the bins.")] = False
    scale: Annotated[Scale | None, doc("Scaling of the number before the network gets it.")] = None


class IntegerFeature(_Number, tag_field="kind", tag="integer", frozen=True, kw_only=True):
    """Whole numbers from low to high, both ends included."""

    low: Annotated[int, doc("Lowest value, included.")]
    high: Annotated[int, doc("Highest value, included.")]


class RealFeature(_Number, tag_field="kind", tag="real", frozen=True, kw_only=True):
    """Real numbers between low and high."""

    low: Annotated[float, doc("Lower end.")]
    high: Annotated[float, doc("Upper end.")]


class CategoryFeature(_Feature, tag_field="kind", tag="category", frozen=True, kw_only=True):
    """One of several named values, encoded 0, 1, ... unless `codes` states otherwise."""

    values: Annotated[tuple[Text | int, ...], doc("Names of the values, in order.", min_length=1)]
    codes: Annotated[
        tuple[Number, ...] | None, doc("Number that the network gets for each value, in the same order.")
    ] = None
    one_hot: Annotated[bool, doc("One network input for each value: 1 for the given value, otherwise 0.")] = False
    aliases: Annotated[
        tuple[Text | int, ...] | None, doc("Names of the values in a table, in the same order, if they differ.")
    ] = None
    terms: Annotated[
        Text | dict[str, tuple[Text, ...]] | None,
        doc(
            "Words by which a text mentions each value: religion, race or gender, a .toml or .json file, "
            "or a table. Such a feature is not an input of the network: model_input is false."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Set `model_input` to False for a feature with terms: it is determined by the text, and has no input."""
        if self.terms is not None:
            msgspec.structs.force_setattr(self, "model_input", False)


class TextFeature(Strict, tag_field="kind", tag="text", frozen=True, kw_only=True):
    """A text. The model gets it unchanged, unless `vectors` or `vocabulary` state that the model takes words.

    The other keys belong to these two.
    """

    name: Annotated[Text, doc("Name of the text in results.")]
    input: Annotated[Text | None, doc("The network's input that takes the words, if it has several.")] = None
    length: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TEXT_LENGTH)] | None,
        doc("Number of words that the network reads; longer texts are truncated. Needed with vectors or vocabulary."),
    ] = None
    vectors: Annotated[
        Text | None, doc("The network takes word vectors: glove, or a file (.txt, .vec, .bin, .npy beside its words).")
    ] = None
    vocabulary: Annotated[
        Text | None, doc("The network takes numbers of words: a file whose line i, from 0, is the word with number i.")
    ] = None
    pad: Annotated[Literal["right", "left"], doc("The end at which a short text is padded.")] = "right"
    unknown: Annotated[
        Text, doc("skip: words that are not in the list are left out; or the word that replaces them.")
    ] = "skip"
    padding: Annotated[
        Text | None, doc("For a vocabulary: the word whose number pads short texts; found by its name if absent.")
    ] = None
    layout: Annotated[
        Literal["batch", "time"] | None, doc("First axis of the network's input; found by trials if absent.")
    ] = None
    lengths: Annotated[
        Text | None, doc("The network's input for the number of words; found by its shape if absent.")
    ] = None
    mask: Annotated[
        Text | None, doc("The network's input with 1 for a word and 0 for padding; found by its shape if absent.")
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
