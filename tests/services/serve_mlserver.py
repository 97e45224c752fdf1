"""Train a scikit-learn pipeline and describe it to MLServer: run by the Python of the server's own environment.

`python serve_mlserver.py FOLDER TABLE` writes the model, its settings, and its own predictions for the rows of TABLE.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import joblib
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

WORDS, NUMBERS = ["sex", "workclass", "occupation"], ["age", "hours"]


def _settings(folder: Path, name: str, inputs: list[dict[str, object]], outputs: list[dict[str, object]]) -> None:
    place = folder / name
    place.mkdir()
    settings = {
        "name": name,
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": "./model.joblib", "version": "v7"},
        "inputs": inputs,
        "outputs": outputs,
    }
    (place / "model-settings.json").write_text(json.dumps(settings))


def _tabular(folder: Path, table: Path) -> None:
    frame = pd.read_csv(table)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), WORDS),
        (StandardScaler(), NUMBERS),
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=500))
    model.fit(frame[WORDS + NUMBERS], (frame["income"] == ">50K").astype(int))
    inputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in WORDS]
    inputs += [{"name": name, "datatype": "INT64", "shape": [-1]} for name in NUMBERS]
    outputs = [{"name": "predict", "datatype": "INT64", "shape": [-1]}]
    _settings(folder, "income", inputs, outputs)
    joblib.dump(model, folder / "income" / "model.joblib")
    (folder / "income.json").write_text(json.dumps(model.predict(frame[WORDS + NUMBERS]).tolist()))
    numbers = LogisticRegression(max_iter=500).fit(frame[NUMBERS].to_numpy(float), frame["income"] == ">50K")
    array = [{"name": "input", "datatype": "FP64", "shape": [-1, 2]}]
    _settings(folder, "numbers", array, [{"name": "predict_proba", "datatype": "FP64", "shape": [-1, 2]}])
    joblib.dump(numbers, folder / "numbers" / "model.joblib")
    chosen = numbers.predict_proba(frame[NUMBERS].to_numpy(float)).argmax(axis=1)
    (folder / "numbers.json").write_text(json.dumps(chosen.tolist()))


def _texts(folder: Path, texts: list[str]) -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model.fit(texts, [int("!" in text or "bad" in text) for text in texts])
    _settings(
        folder,
        "texts",
        [{"name": "comment", "datatype": "BYTES", "shape": [-1], "parameters": {"content_type": "str"}}],
        [{"name": "predict", "datatype": "INT64", "shape": [-1]}],
    )
    joblib.dump(model, folder / "texts" / "model.joblib")
    (folder / "texts.json").write_text(json.dumps(model.predict(texts).tolist()))


if __name__ == "__main__":
    _tabular(Path(sys.argv[1]), Path(sys.argv[2]))
    _texts(Path(sys.argv[1]), json.loads(Path(sys.argv[3]).read_text()))
