"""Fairness metrics of recorded decisions, with the interface of fairlearn and with bounds."""

from fairchain.metrics.group_table import CalibrationBin, GroupTable, TableRate, by_group
from fairchain.metrics.parity import (
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equal_opportunity_ratio,
    equalized_odds_difference,
    equalized_odds_ratio,
    selection_rates,
)

__all__ = [
    "CalibrationBin",
    "GroupTable",
    "TableRate",
    "by_group",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
    "selection_rates",
]
