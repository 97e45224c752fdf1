"""Every kind of model that people have, trained on the census data with mixed columns.

`python -m tests.models.census_models` measures the processor time from the model and the frame to the first answer,
which is the waiting time on an idle machine with one thread (OMP_NUM_THREADS=1); the table is in docs/models.md. The
models do not get the protected column.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import census_networks as networks

LABEL, PROTECTED, FAVOURABLE = "income", "sex", ">50K"
NUMBERS = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
WORDS = ["workclass", "marital-status", "occupation", "relationship"]
# Rows that are asked about, and trees of an ensemble.
ROWS, TREES = 15_000, 60


@dataclass(frozen=True)
class Trained:
    """A model as it is given to `check`, its own decisions about the frame, and further options of `check`."""

    model: Any
    chosen: Any
    options: dict[str, Any]


def census(folder: Path) -> Any:
    """Return the first rows of the census data as a frame; words are categories, some of them missing."""
    import pandas as pd

    from fairchain.datasets.tables import write_table

    path = folder / "census.csv"
    write_table("census", path)
    frame = pd.read_csv(path, nrows=ROWS, na_values=["?"])
    for column in [*WORDS, PROTECTED]:
        frame[column] = frame[column].astype("category")
    return frame[[*NUMBERS, *WORDS, PROTECTED, LABEL]]


def _pipeline(frame: Any, model: Any, *, impute: bool = True) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    encoder = OneHotEncoder(handle_unknown="ignore")
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), encoder) if impute else encoder
    columns = make_column_transformer((StandardScaler(), NUMBERS), (words, WORDS), sparse_threshold=0)
    return make_pipeline(columns, model).fit(frame.drop(columns=LABEL), frame[LABEL])


def logistic(frame: Any, _: Path) -> Trained:
    from sklearn.linear_model import LogisticRegression

    model = _pipeline(frame, LogisticRegression(max_iter=500))
    return Trained(model, model.predict(frame.drop(columns=LABEL)) == FAVOURABLE, {})


def forest(frame: Any, _: Path) -> Trained:
    from sklearn.ensemble import RandomForestClassifier

    model = _pipeline(frame, RandomForestClassifier(20, max_depth=10, random_state=0))
    return Trained(model, model.predict(frame.drop(columns=LABEL)) == FAVOURABLE, {})


def histogram(frame: Any, _: Path) -> Trained:
    from sklearn.ensemble import HistGradientBoostingClassifier

    inputs = frame[[*NUMBERS, *WORDS]]
    model = HistGradientBoostingClassifier(max_iter=TREES, categorical_features="from_dtype").fit(inputs, frame[LABEL])
    return Trained(model, model.predict(inputs) == FAVOURABLE, {})


def skops(frame: Any, folder: Path) -> Trained:
    import skops.io
    from sklearn.linear_model import LogisticRegression

    # skops does not trust the types that an imputer of words keeps.
    model = _pipeline(frame, LogisticRegression(max_iter=500), impute=False)
    skops.io.dump(model, folder / "model.skops")
    return Trained(folder / "model.skops", model.predict(frame.drop(columns=LABEL)) == FAVOURABLE, {})


def _labels(frame: Any) -> Any:
    return (frame[LABEL] == FAVOURABLE).astype(int)


CODED = {"labels": ["<=50K", ">50K"]}


def xgboost_estimator(frame: Any, _: Path) -> Trained:
    import xgboost

    inputs = frame[[*NUMBERS, *WORDS]]
    model = xgboost.XGBClassifier(n_estimators=TREES, enable_categorical=True, n_jobs=1).fit(inputs, _labels(frame))
    return Trained(model, model.predict(inputs) == 1, CODED)


def xgboost_booster(frame: Any, _: Path) -> Trained:
    import xgboost

    matrix = xgboost.DMatrix(frame[[*NUMBERS, *WORDS]], _labels(frame), enable_categorical=True)
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1}, matrix, TREES)
    return Trained(model, model.predict(matrix) > 0.5, CODED)


def xgboost_file(suffix: str) -> Callable[[Any, Path], Trained]:
    def train(frame: Any, folder: Path) -> Trained:
        trained = xgboost_estimator(frame, folder)
        trained.model.save_model(folder / f"model{suffix}")
        return Trained(folder / f"model{suffix}", trained.chosen, CODED)

    return train


def lightgbm_estimator(frame: Any, _: Path) -> Trained:
    import lightgbm

    inputs = frame[[*NUMBERS, *WORDS]]
    model = lightgbm.LGBMClassifier(n_estimators=TREES, verbose=-1, n_jobs=1).fit(inputs, frame[LABEL])
    return Trained(model, model.predict(inputs) == FAVOURABLE, {})


def lightgbm_booster(frame: Any, folder: Path) -> Trained:
    trained = lightgbm_estimator(frame, folder)
    return Trained(trained.model.booster_, trained.chosen, CODED)


def lightgbm_file(frame: Any, folder: Path) -> Trained:
    trained = lightgbm_estimator(frame, folder)
    trained.model.booster_.save_model(folder / "model.txt")
    return Trained(folder / "model.txt", trained.chosen, CODED)


def catboost_estimator(frame: Any, _: Path) -> Trained:
    import catboost

    inputs = _no_missing(frame)[[*NUMBERS, *WORDS]]
    settings = {"iterations": TREES, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    model = catboost.CatBoostClassifier(cat_features=WORDS, **settings).fit(inputs, frame[LABEL])
    return Trained(model, model.predict(inputs) == FAVOURABLE, {})


def catboost_file(frame: Any, folder: Path) -> Trained:
    trained = catboost_estimator(frame, folder)
    trained.model.save_model(folder / "model.cbm")
    return Trained(folder / "model.cbm", trained.chosen, {})


def _no_missing(frame: Any) -> Any:
    """Return the frame with a category of its own for missing words, as CatBoost needs it."""
    words = {column: frame[column].cat.add_categories("unknown").fillna("unknown") for column in WORDS}
    return frame.assign(**words)


def wrapper(frame: Any, folder: Path) -> Trained:
    from fairchain import as_frames

    trained = logistic(frame, folder)
    return Trained(as_frames(trained.model.predict), trained.chosen, {})


def linear_svc(frame: Any, _: Path) -> Trained:
    from sklearn.svm import LinearSVC

    model = _pipeline(frame, LinearSVC(max_iter=200))
    return Trained(model, model.predict(frame.drop(columns=LABEL)) == FAVOURABLE, {})


def network(make: Callable[[Any, Any, Path], tuple[Any, Any]]) -> Callable[[Any, Path], Trained]:
    """Return how to train a network of one flat input: `make` gets its layers, the inputs and a folder."""

    def train(frame: Any, folder: Path) -> Trained:
        inputs = networks.coded(_no_missing(frame), [*NUMBERS, *WORDS])
        made, chosen = make(networks.layers_of(inputs, _labels(frame)), inputs, folder)
        return Trained(made, chosen, {})

    return train


def _torch(wrap: str) -> Callable[[Any, Any, Path], tuple[Any, Any]]:
    def make(layers: Any, inputs: Any, _: Path) -> tuple[Any, Any]:
        import torch

        module = networks.torch_module(layers)
        chosen = networks.torch_decides(module, np.float32(inputs))
        wrapped = {"compiled": torch.compile, "scripted": torch.jit.script}.get(wrap, lambda each: each)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is deprecated
            return wrapped(module), chosen

    return make


def _keras(layers: Any, inputs: Any, _: Path) -> tuple[Any, Any]:
    model = networks.keras_model(layers)
    return model, networks.keras_decides(model, np.float32(inputs))


def _keras_file(layers: Any, inputs: Any, folder: Path) -> tuple[Any, Any]:
    model, chosen = _keras(layers, inputs, folder)
    model.save(folder / "model.keras")
    return folder / "model.keras", chosen


def torch_several(frame: Any, _: Path) -> Trained:
    made, chosen = networks.torch_with_embeddings(_no_missing(frame), WORDS, NUMBERS, _labels(frame))
    return Trained(made, chosen, {})


def onnx_several(frame: Any, folder: Path) -> Trained:
    import torch

    module, chosen = networks.torch_with_embeddings(_no_missing(frame), WORDS, NUMBERS, _labels(frame))
    example = torch.zeros(2, len(WORDS), dtype=torch.int64), torch.zeros(2, len(NUMBERS))
    names = ["words", "numbers"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the older exporter
        torch.onnx.export(
            module,
            example,
            folder / "model.onnx",
            dynamo=False,
            input_names=names,
            dynamic_axes={name: {0: "N"} for name in [*names, "output"]},
            output_names=["output"],
        )
    return Trained(folder / "model.onnx", chosen, {})


def keras_several(frame: Any, _: Path) -> Trained:
    made, chosen = networks.keras_with_embeddings(_no_missing(frame), WORDS, NUMBERS, _labels(frame))
    return Trained(made, chosen, {})


KINDS: dict[str, Callable[[Any, Path], Trained]] = {
    "scikit-learn pipeline (logistic regression)": logistic,
    "scikit-learn pipeline (random forest)": forest,
    "scikit-learn HistGradientBoosting": histogram,
    "scikit-learn file `.skops`": skops,
    "XGBoost estimator": xgboost_estimator,
    "XGBoost booster": xgboost_booster,
    "XGBoost file `.json`": xgboost_file(".json"),
    "XGBoost file `.ubj`": xgboost_file(".ubj"),
    "LightGBM estimator": lightgbm_estimator,
    "LightGBM booster": lightgbm_booster,
    "LightGBM file `.txt`": lightgbm_file,
    "CatBoost estimator": catboost_estimator,
    "CatBoost file `.cbm`": catboost_file,
    "function of frames": wrapper,
    "scikit-learn pipeline (LinearSVC)": linear_svc,
    "torch module": network(_torch("")),
    "torch module, compiled": network(_torch("compiled")),
    "torch module, scripted": network(_torch("scripted")),
    "torch module, two inputs": torch_several,
    "Keras model": network(_keras),
    "Keras model, two inputs": keras_several,
    "Keras file `.keras`": network(_keras_file),
    "Keras 2 file `.h5`": network(
        lambda layers, inputs, folder: (
            networks.h5_file(folder / "model.h5", layers),
            networks.chosen_by(layers, inputs),
        )
    ),
    "`.nnet` file": network(
        lambda layers, inputs, folder: (
            networks.nnet_file(folder / "model.nnet", layers, inputs),
            networks.chosen_by(layers, inputs),
        )
    ),
    "ONNX file": network(
        lambda layers, inputs, folder: (
            networks.onnx_file(folder / "model.onnx", layers),
            networks.chosen_by(layers, inputs),
        )
    ),
    "ONNX file, two inputs": onnx_several,
}
# Those that take no missing values: these are a category of their own then.
COMPLETE = ("CatBoost", "torch", "Keras", "`.nnet`", "ONNX")


def check_kind(kind: str, frame: Any, folder: Path) -> tuple[Any, Any, float]:
    """Return the verdict of one call, the model's own decisions, and its seconds of processor time."""
    import fairchain

    trained = KINDS[kind](frame, folder)
    data = _no_missing(frame) if kind.startswith(COMPLETE) else frame
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        verdict = fairchain.check(
            trained.model,
            data,
            protected=PROTECTED,
            label=LABEL,
            outcome=FAVOURABLE,
            reading="population",
            **trained.options,
        )
    return verdict, trained.chosen, time.process_time() - start


def main() -> None:
    """Print a row for each kind: the seconds of one call, and the gap beside that of the model's own decisions."""
    with tempfile.TemporaryDirectory() as folder:
        frame = census(Path(folder))
        check_kind(next(iter(KINDS)), frame, Path(folder))  # imports are not measured
        for kind in KINDS:
            if sys.argv[1:] and not any(word in kind for word in sys.argv[1:]):
                continue
            try:
                verdict, chosen, seconds = check_kind(kind, frame, Path(folder))
                rates = [np.mean(chosen[frame[PROTECTED] == group]) for group in ("Female", "Male")]
                print(
                    f"| {kind} | {seconds:.2f} s | {verdict.gap.estimate:.6f} {abs(rates[1] - rates[0]):.6f}",
                    flush=True,
                )
            except Exception as error:
                print(f"| {kind} | {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "torch")
    main()
