"""The population of a spec, [population]: one struct for each kind, and the nodes of a Bayesian network."""

from typing import Annotated, Literal

import msgspec

from fairchain.spec.keys import Number, Strict, Text, doc

# Cells of a table that mean a missing value, besides the empty one.
NA_VALUES = ("?", "NA", "N/A", "NaN", "nan", "null", "None")


class Uniform(Strict, tag_field="kind", tag="uniform", frozen=True, kw_only=True):
    """All features are drawn independently. Each feature is uniform over its range, or over its values."""


class _Rows(Strict, frozen=True, kw_only=True):
    """Rows of a CSV or Parquet file, and the cells that count as missing."""

    na_values: Annotated[tuple[str, ...], doc("Cells that count as missing, in addition to empty cells.")] = NA_VALUES
    drop_missing: Annotated[bool, doc("Leave out rows with a missing value in a column that the spec uses.")] = False


# [low, high, share]: this share of the population is uniform between low and high.
Piece = tuple[Number, Number, float]


class Marginals(_Rows, tag_field="kind", tag="marginals", frozen=True, kw_only=True):
    """All features are drawn independently, with the frequencies in a table or in this spec."""

    path: Annotated[Text | None, doc("Table whose columns contain the frequencies.")] = None
    frequencies: Annotated[
        dict[str, dict[str, float] | tuple[Piece, ...]],
        doc(
            "For each categorical feature, the share of each value. For each numeric feature, a list of ranges [low, "
            "high, share]."
        ),
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
        doc(
            "Column with recorded decisions, which are used instead of a model. If decision is score, the column "
            "contains scores."
        ),
    ] = None
    keep_missing: Annotated[
        bool,
        doc(
            "Pass missing values to the model, which must accept them. Missing labels, and missing values of "
            "protected features or of features in `given`, remain errors. To leave out such rows, also set "
            "drop_missing."
        ),
    ] = False


class Node(Strict, frozen=True, kw_only=True):
    """A node of a Bayesian network. A node states `probabilities` (discrete), `mean` and `std` (normal), or `value`
    (computed from the parents).
    """

    name: Annotated[
        Text,
        doc(
            "Name of the node. A node with the name of a feature draws this feature. Any other node is an auxiliary "
            "variable."
        ),
    ]
    parents: Annotated[tuple[Text, ...], doc("Nodes on which this node depends.")] = ()
    values: Annotated[tuple[Text | int, ...] | None, doc("Names of the values of an auxiliary variable.")] = None
    probabilities: Annotated[
        tuple[float, ...] | dict[str, tuple[float, ...]] | None,
        doc(
            "Probabilities of the values, as a list. For a node with parents: a table with one list for each "
            'combination of the parents\' values, such as "Female, White".'
        ),
    ] = None
    mean: Annotated[
        float | dict[str, float] | None,
        doc(
            "Mean of a normal node, as a number. For a node with discrete parents: a table with one number for each "
            "combination of the parents' values."
        ),
    ] = None
    std: Annotated[
        float | dict[str, float] | None,
        doc("Standard deviation of a normal node, in the same form as `mean`."),
    ] = None
    slopes: Annotated[
        dict[str, float], doc("For each numeric parent, the change of the mean per unit of the parent.")
    ] = msgspec.field(default_factory=dict)
    switches: Annotated[
        dict[str, Number | tuple[Number, ...]],
        doc(
            "For each numeric parent, one or several thresholds that divide the range of the parent. With switches = "
            '{age = 40}, each combination of the parents\' values contains "age < 40" or "age >= 40".'
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
    """The texts of a corpus. The texts of the groups are compared as they are (observed), or after an exchange of terms
    (swapped).
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
        doc("The column, or key, by which observed texts are sorted. A suitable order reduces the number of rounds."),
    ] = None
    label: Annotated[Text | None, doc("The column, or key, with the true labels of the texts.")] = None
    reading: Annotated[
        Literal["observed", "swapped"],
        doc(
            "observed: the texts of a group are those that mention the group, or those that a column assigns to the "
            "group. swapped: every text that mentions a group is copied for each group, with the terms of that group."
        ),
    ]
    replace: Annotated[int, doc("Largest number of words in a text that are replaced by synonyms.", ge=0, le=100)] = 0
    synonyms: Annotated[
        Literal["vectors", "wordnet"],
        doc("Source of synonyms: words with the nearest vectors, or words that share a meaning in WordNet."),
    ] = "vectors"
    neighbours: Annotated[
        int,
        doc(
            "Largest number of synonyms of a word. The replacement of the word is drawn from its synonyms.",
            ge=1,
            le=100,
        ),
    ] = 8
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
    """A Python function draws the inputs. Python code or the command line names the function, because a spec cannot."""


PopulationSpec = Uniform | Marginals | Table | BayesNetwork | Texts | UserFunction
