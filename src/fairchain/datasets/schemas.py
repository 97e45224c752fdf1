"""Mapping of the raw columns of census, credit and bank to the integer inputs of the example networks.

Numbers are coarsened as in the fairness-testing literature (age by decade, weights and amounts by steps) and clipped to
the declared range. Categories are numbered from 0: by level or calendar if there is such an order (education, months,
the coded scales of credit), otherwise by name; 'unknown', if it occurs, is last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

UNKNOWN = "unknown"


@dataclass(frozen=True)
class EncodedFeature:
    """One input of a network: an integer within [low, high]; `values` name a category's codes."""

    name: str
    kind: Literal["integer", "category"]
    low: int
    high: int
    values: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RawColumn:
    """A feature, its raw column, and the function from cell to integer (not yet clipped)."""

    source: str
    feature: EncodedFeature
    code: Callable[[str], int]


def _integer(source: str, low: int, high: int, *, step: int = 1) -> RawColumn:
    # Floor, not truncation: a balance of -1 is in the step below zero.
    return RawColumn(source, EncodedFeature(source, "integer", low, high), lambda cell: int(cell) // step)


def _category(source: str, values: Sequence[str], *, codes: Mapping[str, str] | None = None) -> RawColumn:
    """Return a category whose cells are the value names, or `codes` from cell to value name."""
    index = {value: position for position, value in enumerate(values)}
    known = {cell: index[value] for cell, value in codes.items()} if codes else dict(index)
    if UNKNOWN in index:
        known.setdefault("?", index[UNKNOWN])
    return RawColumn(source, EncodedFeature(source, "category", 0, len(values) - 1, tuple(values)), known.__getitem__)


def _coded(source: str, prefix: str, *values: str) -> RawColumn:
    """Return a category of the credit data, whose cells are `prefix` with 1, 2, ... (A11, A12, ...)."""
    return _category(source, values, codes={f"{prefix}{n}": value for n, value in enumerate(values, 1)})


_COUNTRIES = """
    Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany Greece Guatemala
    Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua
    Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand
    Trinadad&Tobago United-States Vietnam Yugoslavia unknown
"""
_WORKCLASSES = """
    Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay unknown
"""
_SCHOOLING = """
    Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm Bachelors Masters
    Prof-school Doctorate
"""
_MARITAL = """
    Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed
"""
_OCCUPATIONS = """
    Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners Machine-op-inspct
    Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support Transport-moving unknown
"""
_RELATIONSHIPS = "Husband Not-in-family Other-relative Own-child Unmarried Wife"
_RACES = "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"

# The raw columns in file order; education-num repeats education as a number and is not used.
_CENSUS_NAMES = """
    age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain
    capital-loss hours-per-week native-country income
"""
CENSUS_HEADER = tuple(_CENSUS_NAMES.split())
CENSUS = (
    _integer("age", 1, 9, step=10),
    _category("workclass", _WORKCLASSES.split()),
    _integer("fnlwgt", 0, 39, step=20_000),
    _category("education", _SCHOOLING.split()),
    _category("marital-status", _MARITAL.split()),
    _category("occupation", _OCCUPATIONS.split()),
    _category("relationship", _RELATIONSHIPS.split()),
    _category("race", _RACES.split()),
    _category("sex", ("Female", "Male")),
    _integer("capital-gain", 0, 99, step=1_000),
    _integer("capital-loss", 0, 39, step=100),
    _integer("hours-per-week", 0, 99),
    _category("native-country", _COUNTRIES.split()),
)

_PURPOSES = {
    **{"A40": "new car", "A41": "used car", "A42": "furniture", "A43": "radio or television"},
    **{"A44": "appliances", "A45": "repairs", "A46": "education", "A48": "retraining", "A49": "business"},
    **{"A410": "other"},
}
_SEX_OF_STATUS = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}
_HISTORY = ("no credits", "all paid here", "paid so far", "delays", "critical account")

_CREDIT_NAMES = """
    checking duration history purpose amount savings employment rate sex debtors residence property age plans housing
    credits job liable telephone foreign risk
"""
CREDIT_HEADER = tuple(_CREDIT_NAMES.split())
CREDIT = (
    _coded("checking", "A1", "below 0", "0 to 199", "200 or more", "none"),
    _integer("duration", 1, 80),
    _category("history", _HISTORY, codes={f"A3{n}": value for n, value in enumerate(_HISTORY)}),
    _category("purpose", tuple(_PURPOSES.values()), codes=_PURPOSES),
    _integer("amount", 1, 200, step=100),
    _coded("savings", "A6", "below 100", "100 to 499", "500 to 999", "1000 or more", "none or unknown"),
    _coded("employment", "A7", "none", "below 1 year", "1 to 3 years", "4 to 6 years", "7 years or more"),
    _integer("rate", 1, 4),
    _category("sex", ("female", "male"), codes=_SEX_OF_STATUS),
    _coded("debtors", "A10", "none", "co-applicant", "guarantor"),
    _integer("residence", 1, 4),
    _coded("property", "A12", "real estate", "savings or insurance", "car or other", "none or unknown"),
    _integer("age", 1, 8, step=10),
    _coded("plans", "A14", "bank", "stores", "none"),
    _coded("housing", "A15", "rent", "own", "free"),
    _integer("credits", 1, 4),
    _coded("job", "A17", "unskilled non-resident", "unskilled resident", "skilled", "highly qualified"),
    _integer("liable", 1, 2),
    _coded("telephone", "A19", "no", "yes"),
    _coded("foreign", "A20", "yes", "no"),
)

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_JOBS = """
    admin. blue-collar entrepreneur housemaid management retired self-employed services student technician unemployed
    unknown
"""
_YES_NO = ("no", "yes")

BANK = (
    _integer("age", 1, 9, step=10),
    _category("job", _JOBS.split()),
    _category("marital", ("divorced", "married", "single")),
    _category("education", ("primary", "secondary", "tertiary", UNKNOWN)),
    _category("default", _YES_NO),
    _integer("balance", -20, 179, step=50),
    _category("housing", _YES_NO),
    _category("loan", _YES_NO),
    _category("contact", ("cellular", "telephone", UNKNOWN)),
    _integer("day", 1, 31),
    _category("month", _MONTHS.split()),
    _integer("duration", 0, 99, step=10),
    _integer("campaign", 1, 63),
    RawColumn(
        "pdays",
        EncodedFeature("pdays", "category", 0, 1, ("contacted before", "never contacted")),
        lambda cell: int(int(cell) == -1),
    ),
    _integer("previous", 0, 1),
    _category("poutcome", ("failure", "other", "success", UNKNOWN)),
)
