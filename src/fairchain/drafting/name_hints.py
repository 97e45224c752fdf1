"""What names tell: columns that hold labels or identifiers, features that a law may protect, outcomes people want.

Only names are looked at, so everything here is a guess that is to be said aloud.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Likeliest first; compared as lower-case words joined by underscores.
LABEL_NAMES = (
    *("label", "labels", "target", "y", "y_true", "truth", "ground_truth", "class", "outcome", "two_year_recid"),
    *("is_recid", "recid", "income", "risk", "credit_risk", "deposit", "subscribed", "approved", "loan_status"),
    *("hired", "admitted", "accepted", "granted", "decision", "result", "response", "output", "salary", "churn"),
    *("survived", "good_bad", "diagnosis", "status"),
)
ID_NAMES = frozenset({"id", "ids", "index", "unnamed_0", "row", "row_id", "rowid", "uuid", "guid", "person_id", "name"})

# A word in the name of a feature, likeliest first.
PROTECTED_WORDS = (
    *("sex", "gender", "race", "ethnicity", "ethnic", "age", "religion", "religious", "disability", "disabled"),
    *("handicap", "nationality", "citizenship", "citizen", "foreign", "foreigner", "immigrant", "migrant", "native"),
    *("birthplace", "marital", "married", "pregnant", "pregnancy", "orientation", "caste", "veteran"),
)

WANTED = (
    *("yes", "approved", "approve", "accepted", "accept", "granted", "grant", "hired", "hire", "admitted", "admit"),
    *("good", "positive", "favourable", "favorable", "true", "success", "passed", "pass", "selected", "paid", "1"),
)


def words_of(name: str) -> list[str]:
    """The words in a name: of `MaritalStatus`, `marital-status` and `marital_status` the same two.

    >>> words_of("MaritalStatus"), words_of("native-country"), words_of("ageGroup2")
    (['marital', 'status'], ['native', 'country'], ['age', 'group', '2'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_A-Za-z]+", name)]


def plain(name: str) -> str:
    """A name as its words joined by underscores, to compare names that differ in spelling only."""
    return "_".join(words_of(name))


def like_label(names: Iterable[str]) -> str | None:
    """The column that is called most like a label, the last of equals; None if none is."""
    ranked = [(LABEL_NAMES.index(plain(name)), -place, name) for place, name in enumerate(names) if _is_label(name)]
    return min(ranked)[2] if ranked else None


def _is_label(name: str) -> bool:
    return plain(name) in LABEL_NAMES


def like_protected(names: Iterable[str]) -> list[str]:
    """The names that a law may protect, the likeliest first.

    >>> like_protected(["age", "average_age_of_car", "mileage", "sex", "native-country"])
    ['sex', 'age', 'average_age_of_car', 'native-country']
    """
    ranked = []
    for place, name in enumerate(names):
        found = [PROTECTED_WORDS.index(word) for word in words_of(name) if word in PROTECTED_WORDS]
        if found:
            ranked.append((min(found), len(words_of(name)), place, name))
    return [name for *_, name in sorted(ranked)]


def is_quantity(name: str) -> bool:
    """Whether neighbouring numbers of a feature are alike: true of ages and hours, not of numbered countries.

    >>> [is_quantity(name) for name in ("age", "hours", "race", "native-country", "age at marriage")]
    [True, True, False, False, True]
    """
    words = words_of(name)
    return "age" in words or not any(word in PROTECTED_WORDS for word in words)


def wanted(labels: Sequence[str]) -> str | None:
    """The label that people hope for, by its name; None if no name tells.

    >>> wanted(["<=50K", ">50K"]), wanted(["bad", "good"]), wanted(["0", "1"]), wanted(["a", "b"])
    ('>50K', 'good', '1', None)
    """
    folded = {label.strip().casefold(): label for label in reversed(labels)}
    for word in WANTED:
        if word in folded:
            return folded[word]
    above = [label for label in labels if label.lstrip().startswith(">")]
    return above[0] if len(above) == 1 else None
