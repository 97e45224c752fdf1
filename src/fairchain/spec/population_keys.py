"""The population of a spec, [population]: one struct for each kind, and the nodes of a Bayesian network."""

from typing import Annotated, Literal

import msgspec

from fairchain.spec.keys import Number, Strict, Text, doc

# Cells of a table that mean a missing value, besides the empty one.
NA_VALUES = ("?", "NA", "N/A", "NaN", "nan", "null", "None")


class Uniform(Strict, tag_field="kind", tag="uniform", frozen=True, kw_only=True):
    """Every feature independent and uniform over its range."""


class _Rows(Strict, frozen=True, kw_only=True):
    """Rows of a CSV or Parquet file, and the cells that count as missing."""

    na_values: Annotated[tuple[str, ...], doc("Cells that count as missing, in addition to empty cells.")] = NA_VALUES
    drop_missing: Annotated[bool, doc("Leave out rows in which a value that is used is missing.")] = False


# [low, high, share]: this share of the population is uniform between low and high.
Piece = tuple[Number, Number, float]


class Marginals(_Rows, tag_field="kind", tag="marginals", frozen=True, kw_only=True):
    """Every feature independent, with the frequencies of a table's column or those stated here."""

    path: Annotated[Text | None, doc("Table whose columns give the frequencies.")] = None
    frequencies: Annotated[
        dict[str, dict[str, float] | tuple[Piece, ...]],
        doc("For a feature, the share of each value, or pieces [low, high, share] of a number."),
    ] = msgspec.field(default_factory=dict)


class Table(_Rows, tag_field="kind", tag="table", rename={"reading": "as"}, frozen=True, kw_only=True):
    """Rows of a table: the whole population, or a sample of a larger population."""

    path: Annotated[Text | None, doc("CSV or Parquet file; absent if the rows are passed in Python.")] = None
    reading: Annotated[
        Literal["population", "sample"],
        doc(
            "population: the rows are the whole population, and the answer is exact; sample: they are drawn from "
            "a larger one."
        ),
    ]
    label: Annotated[Text | None, doc("Column with the true labels.")] = None
    prediction: Annotated[
        Text | None,
        doc("Column with recorded decisions, or with scores if decision is score; it replaces the network."),
    ] = None
    keep_missing: Annotated[
        bool,
        doc(
            "Give missing values to the model, which must accept them. This does not keep rows that lack a label "
            "or a value of the protected features or of given."
        ),
    ] = False


class Node(Strict, frozen=True, kw_only=True):
    """A node of a Bayesian network: a table of probabilities, a normal number, or an expression of its parents."""

    name: Annotated[Text, doc("Name of a feature, or a new name for a node that is not a feature.")]
    parents: Annotated[tuple[Text, ...], doc("Nodes on which this node depends.")] = ()
    values: Annotated[
        tuple[Text | int, ...] | None, doc("Names of the values, if the node is not a feature of that name.")
    ] = None
    probabilities: Annotated[
        tuple[float, ...] | dict[str, tuple[float, ...]] | None,
        doc('Without parents a list; otherwise one for each combination of the parents: "Female, White".'),
    ] = None
    mean: Annotated[
        float | dict[str, float] | None, doc("Mean of a number; one for each combination of discrete parents.")
    ] = None
    std: Annotated[
        float | dict[str, float] | None,
        doc("Standard deviation of a number; one for each combination of discrete parents."),
    ] = None
    slopes: Annotated[dict[str, float], doc("Change of the mean for each unit of a numeric parent.")] = msgspec.field(
        default_factory=dict
    )
    switches: Annotated[
        dict[str, Number | tuple[Number, ...]],
        doc(
            "Thresholds of numeric parents at which the node switches: switches = {age = 40}; the keys of its entries "
            'are then "age < 40" and "age >= 40".'
        ),
    ] = msgspec.field(default_factory=dict)
    value: Annotated[
        Text | None, doc('Expression that computes the node from its parents: value = "max(age, years + 16)".')
    ] = None


class BayesNetwork(Strict, tag_field="kind", tag="network", frozen=True, kw_only=True):
    """A Bayesian network over the features, stated here or in a file."""

    path: Annotated[Text | None, doc("A .bif, .json or .toml file with the nodes.")] = None
    nodes: Annotated[tuple[Node, ...], doc("The nodes, if they are stated here.")] = ()
    name: Annotated[Text | None, doc("Name of the network in verdicts; by default the name of its file.")] = None


class Texts(_Rows, tag_field="kind", tag="text", rename={"reading": "as"}, frozen=True, kw_only=True):
    """Texts of a corpus: texts that mention a group, or the same text shown with the terms of each group."""

    path: Annotated[
        Text | None,
        doc(
            "A .txt file with one text per line, or a .csv, .tsv or .jsonl file; absent if texts are passed in Python."
        ),
    ] = None
    dataset: Annotated[Literal["toxicity"] | None, doc("A corpus of `fairchain data`, instead of path.")] = None
    column: Annotated[Text | None, doc("The column, or key, that contains the texts.")] = None
    pair_by: Annotated[
        Text | None,
        doc("A column, or key, by which the texts of a round are matched, which reduces the number of rounds."),
    ] = None
    label: Annotated[Text | None, doc("The column, or key, with the true labels of the texts.")] = None
    reading: Annotated[
        Literal["observed", "swapped"],
        doc("observed: texts that mention the group; swapped: one text, shown with the terms of each group."),
    ]
    replace: Annotated[
        int, doc("Largest number of words of a text that are replaced by synonyms; 0 for none.", ge=0, le=100)
    ] = 0
    synonyms: Annotated[
        Literal["vectors", "wordnet"], doc("Words with the nearest vectors, or of the same synset of WordNet.")
    ] = "vectors"
    neighbours: Annotated[int, doc("Largest number of synonyms among which a replacement is drawn.", ge=1, le=100)] = 8
    wordnet: Annotated[Text | None, doc("Folder of WordNet 3.0: index.noun, data.noun, ...")] = None
    show_texts: Annotated[
        bool,
        doc("Quote texts in full; otherwise offensive words and personal data are masked, and long texts shortened."),
    ] = False
    mask_words: Annotated[tuple[Text, ...], doc("Further words that are masked where texts are quoted.")] = ()


class UserFunction(Strict, tag_field="kind", tag="callable", frozen=True, kw_only=True):
    """Inputs drawn by a Python function, which is named in Python or on the command line, never in a spec."""


PopulationSpec = Uniform | Marginals | Table | BayesNetwork | Texts | UserFunction
