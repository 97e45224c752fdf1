"""The bootstrap as it is used with fairlearn: a percentile interval of the demographic parity difference.

Rows are resampled with replacement, groups included, and the metric is taken anew each time. Resampling rows with a
group and a yes or no is a multinomial draw of the cell counts, which is how it is done here; `by_fairlearn` calls
fairlearn itself. The interval guarantees nothing for a finite sample, and with several groups its centre is biased
upwards.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
# What fairlearn's own guide uses.
RESAMPLES = 100


def bootstrap(
    successes: ArrayLike, size: ArrayLike, seed: int, *, delta: float = 0.05, resamples: int = RESAMPLES
) -> tuple[Floats, Floats]:
    """Percentile bounds of the largest difference of two groups' rates in each run, from (runs, groups)."""
    positive = np.asarray(successes)
    trials = np.broadcast_to(np.asarray(size), positive.shape)
    cells = np.concatenate([positive, trials - positive], axis=-1).astype(float)
    rows = trials.sum(axis=-1)
    chances = cells / rows[..., None]
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(rows[..., None], chances[..., None, :], size=(*positive.shape[:-1], resamples))
    yes, no = np.split(drawn, 2, axis=-1)
    gaps = np.ptp(yes / np.maximum(yes + no, 1), axis=-1)
    low, high = np.quantile(gaps, [delta / 2, 1 - delta / 2], axis=-1)
    return low, high


def by_fairlearn(
    positive: NDArray[np.bool_], seed: int, *, delta: float = 0.05, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The same through fairlearn's MetricFrame, from (groups, inputs) decisions."""
    from fairlearn.metrics import MetricFrame, selection_rate  # type: ignore[import-untyped]

    groups = np.repeat(np.arange(len(positive)), positive.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = MetricFrame(
            metrics=selection_rate,
            y_true=np.zeros(positive.size, int),
            y_pred=positive.ravel().astype(int),
            sensitive_features=groups,
            n_boot=resamples,
            ci_quantiles=[delta / 2, 1 - delta / 2],
            random_state=seed,
        )
        low, high = frame.difference_ci()
    return float(low), float(high)
