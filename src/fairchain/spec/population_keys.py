"""The population of a spec, [population]: one struct for each kind, and the nodes of a Bayesian network."""

from typing import Annotated, Literal

import msgspec

from fairchain.spec.keys import Number, Strict, Text, doc

# Cells of a table that mean a missing value, besides the empty one.
NA_VALUES = ("?", "NA", "N/A", "NaN", "nan", "null", "None")


class Uniform(Strict, tag_field="kind", tag="uniform", frozen=True, kw_only=True):
    """All features are drawn independently and uniformly from their ranges."""


class _Rows(Strict, frozen=True, kw_only=True):
    """Rows of a CSV or Parquet file, and the cells that count as missing."""

    na_values: Annotated[tuple[str, ...], doc("Cells that count as missing, in addition to empty cells.")] = NA_VALUES
    drop_missing: Annotated[bool, doc("Leave out rows in which a required value is missing.")] = False


# [low, high, share]: this share of the population is uniform between low and high.
Piece = tuple[Number, Number, float]


class Marginals(_Rows, tag_field="kind", tag="marginals", frozen=True, kw_only=True):
    """All features are drawn independently, with the frequencies in a table or in this spec."""

    path: Annotated[Text | None, doc("Table whose columns contain the frequencies.")] = None
    frequencies: Annotated[
        dict[str, dict[str, float] | tuple[Piece, ...]],
        doc("For each feature, the share of each value. For a numeric feature, a list of ranges [low, high, share]."),
    ] = msgspec.field(default_factory=dict)


class Table(_Rows, tag_field="kind", tag="table", rename={"reading": "as"}, frozen=True, kw_only=True):
    """The rows of a table are the whole population, or a sample of a larger population."""

    path: Annotated[Text | None, doc("CSV or Parquet file. Leave out this key if the rows are passed in Python.")] = (
        None
    )
    reading: Annotated[
        Literal["population", "sample"],
        doc(
            "population: the rows are the whole population, and the answer is exact. sample: the rows are drawn from a "
            "larger population."
        ),
    ]
    label: Annotated[Text | None, doc("Column with the true labels.")] = None
    prediction: Annotated[
        Text | None,
        doc("Column with recorded decisions, or with scores if decision is score. The column replaces the network."),
    ] = None
    keep_missing: Annotated[
        bool,
        doc(
            "Pass missing values to the model, which must accept them. This key does not apply to missing labels, to "
            "protected features, or to features in the condition `given`."
        ),
    ] = False


class Node(Strict, frozen=True, kw_only=True):
    """A node of a Bayesian network: discrete with a table of probabilities, normal, or an expression of its parents."""

    name: Annotated[Text, doc("Name of a feature. A new name defines a node that is not a feature.")]
    parents: Annotated[tuple[Text, ...], doc("Nodes on which this node depends.")] = ()
    values: Annotated[tuple[Text | int, ...] | None, doc("Names of the values, for a node that is not a feature.")] = (
        None
    )
    probabilities: Annotated[
        tuple[float, ...] | dict[str, tuple[float, ...]] | None,
        doc(
            "Probabilities of the values. Without parents: a list. With parents: a table with one list for each "
            'combination of values of the parents. The key "Female, White" is such a combination.'
        ),
    ] = None
    mean: Annotated[
        float | dict[str, float] | None,
        doc("Mean of a normal node. With discrete parents, one mean for each combination of their values."),
    ] = None
    std: Annotated[
        float | dict[str, float] | None,
        doc("Standard deviation of a normal node. With discrete parents, one for each combination of their values."),
    ] = None
    slopes: Annotated[dict[str, float], doc("Change of the mean for each unit of a numeric parent.")] = msgspec.field(
        default_factory=dict
    )
    switches: Annotated[
        dict[str, Number | tuple[Number, ...]],
        doc(
            "Thresholds that divide numeric parents into ranges. With switches = {age = 40}, the keys of the "
            'probabilities or means contain "age < 40" or "age >= 40".'
        ),
    ] = msgspec.field(default_factory=dict)
    value: Annotated[
        Text | None, doc('Expression that computes the node from its parents: value = "max(age, years + 16)".')
    ] = None


class BayesNetwork(Strict, tag_field="kind", tag="network", frozen=True, kw_only=True):
    """The features are drawn from a Bayesian network, which is stated in this spec or in a file."""

    path: Annotated[Text | None, doc("A .bif, .json or .toml file with the nodes.")] = None
    nodes: Annotated[tuple[Node, ...], doc("The nodes, if there is no file.")] = ()
    name: Annotated[Text | None, doc("Name of the network in verdicts; by default the name of its file.")] = None


class Texts(_Rows, tag_field="kind", tag="text", rename={"reading": "as"}, frozen=True, kw_only=True):
    """The texts of a corpus. Each group has its own texts, or every text that mentions a group is shown with the terms
    of each group.
    """

    path: Annotated[
        Text | None,
        doc(
            "A .txt file with one text on each line, or a .csv, .tsv or .jsonl file. Leave out this key if the texts "
            "are passed in Python."
        ),
    ] = None
    dataset: Annotated[Literal["toxicity"] | None, doc("A corpus of `fairchain data`, instead of path.")] = None
    column: Annotated[Text | None, doc("The column, or key, that contains the texts.")] = None
    pair_by: Annotated[
        Text | None,
        doc("A column, or key. Observed texts are sorted by its values, which can reduce the number of rounds."),
    ] = None
    label: Annotated[Text | None, doc("The column, or key, with the true labels of the texts.")] = None
    reading: Annotated[
        Literal["observed", "swapped"],
        doc(
            "observed: each group has its own texts, which mention the group or belong to it by a column. swapped: "
            "every text that mentions a group is shown with the terms of each group."
        ),
    ]
    replace: Annotated[int, doc("Largest number of words in a text that are replaced by synonyms.", ge=0, le=100)] = 0
    synonyms: Annotated[
        Literal["vectors", "wordnet"],
        doc("Source of synonyms: words with the nearest vectors, or words that share a meaning in WordNet."),
    ] = "vectors"
    neighbours: Annotated[int, doc("Largest number of synonyms among which a replacement is drawn.", ge=1, le=100)] = 8
    wordnet: Annotated[Text | None, doc("Folder of WordNet 3.0: index.noun, data.noun, ...")] = None
    show_texts: Annotated[
        bool,
        doc(
            "Quote texts in full. By default, offensive words and personal data are masked, and long texts are "
            "shortened."
        ),
    ] = False
    mask_words: Annotated[tuple[Text, ...], doc("Further words to mask in quoted texts.")] = ()


class UserFunction(Strict, tag_field="kind", tag="callable", frozen=True, kw_only=True):
    """A Python function draws the inputs. It is passed in Python or on the command line, never named in a spec."""


PopulationSpec = Uniform | Marginals | Table | BayesNetwork | Texts | UserFunction
