"""Promises of `adapters.model_files`: files of other packages are checked, and decide as the model that was saved."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fairchain
from fairchain.errors import ModelError
from fairchain.models import load_model
from fairchain.models.adapters import model_files
from fairchain.models.adapters.catboost_process import CatBoostFile
from fairchain.models.adapters.converting import DAMAGED_ARCHIVE
from fairchain.models.adapters.from_socrates import NOT_SOCRATES_NETWORK
from fairchain.models.adapters.lightgbm_text import TREE_TOO_DEEP, checked_text
from fairchain.models.adapters.model_files import DAMAGED_MODEL_FILE, FILE_NEEDS, UNTRUSTED_TYPES, read_object
from fairchain.models.adapters.native_reader import CRASHES
from fairchain.models.load import NOT_READ
from tests.messages import says, says_one_of
from tests.models.mixed import LABELS, about, gap, people
from tests.questions import spec

SUFFIXES = {".ubj": b"{L", ".txt": b"tree\n", ".cbm": b"CBM1", ".skops": b"PK"}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_the_package_the_message_says_what_to_install(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "find_spec", lambda _: None)
    path = tmp_path / f"model{suffix}"
    path.write_bytes(SUFFIXES[suffix])
    with pytest.raises(ModelError, match=says(FILE_NEEDS)):
        load_model(path, spec())


def test_a_json_file_of_xgboost_is_not_called_a_broken_socrates_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "find_spec", lambda _: None)
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"learner": {}, "version": [3, 0, 0]}))
    with pytest.raises(ModelError, match=says(FILE_NEEDS, package="xgboost", install="xgboost")):
        load_model(path, spec())


def test_a_json_file_that_is_neither_is_called_what_it_should_be(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("{}")
    with pytest.raises(ModelError, match=says(NOT_SOCRATES_NETWORK)):
        load_model(path, spec())


def saved(kind: str, folder: Path, frame: Any, labels: Any) -> tuple[Path, dict[str, Any], Any]:
    """Save a model of this kind; return its file, what a spec must say of it, and its own decisions."""
    package, _, suffix = kind.partition(" ")
    path, above = folder / f"model.{suffix}", (labels == LABELS[1]).astype(int)
    if package == "xgboost":
        import xgboost

        model: Any = xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True).fit(frame, above)
        model.save_model(path)
        return path, {"codes": [0, 1]}, model.predict(frame) == 1
    if package == "booster":
        import xgboost

        matrix = xgboost.DMatrix(frame, above, enable_categorical=True)
        booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3}, matrix, 8)
        booster.save_model(path)
        return path, {}, booster.predict(matrix) > 0.5
    if package == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(frame, labels)
        model.booster_.save_model(path)
        return path, {}, model.predict(frame) == LABELS[1]
    if package == "catboost":
        import catboost

        model = catboost.CatBoostClassifier(
            iterations=8, verbose=0, allow_writing_files=False, cat_features=["work", "sex"]
        ).fit(frame, labels)
        model.save_model(path)
        return path, {}, model.predict(frame) == LABELS[1]
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["work", "sex"]))
    model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(frame, labels)
    skops.io.dump(model, path)
    return path, {}, model.predict(frame) == LABELS[1]


KINDS = ["xgboost json", "xgboost ubj", "booster json", "booster ubj", "lightgbm txt", "catboost cbm", "skops skops"]


@pytest.mark.boosting
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_decides_as_the_model_that_was_saved(kind: str, tmp_path: Path) -> None:
    frame, labels = people()
    path, says, chosen = saved(kind, tmp_path, frame, labels)
    frame.to_csv(tmp_path / "people.csv", index=False)
    for data in (frame, tmp_path / "people.csv"):
        verdict = fairchain.verify(path, about(frame, **says), data=data)
        assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.boosting
def test_a_spec_file_can_name_such_a_file_and_its_verdict_can_be_certified(tmp_path: Path) -> None:
    frame, labels = people()
    path, says, chosen = saved("lightgbm txt", tmp_path, frame, labels)
    verdict = fairchain.verify(path, about(frame, **says), data=frame, certify=True)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)
    certificate = tmp_path / "certificate.json"
    fairchain.write_certificate(verdict, certificate)
    assert fairchain.recheck(certificate, path, data=frame).holds


def tree_of_xgboost(content: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = content["learner"]["gradient_booster"]["model"]["trees"][0]
    return tree


DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "a child out of bounds": lambda tree: tree["left_children"].__setitem__(0, 10**6),
    "a node that is its own child": lambda tree: tree["left_children"].__setitem__(1, 1),
    "a loop to the first node": lambda tree: tree["right_children"].__setitem__(0, 0),
    "a column out of bounds": lambda tree: tree["split_indices"].__setitem__(0, 10**6),
    "a list that is too short": lambda tree: tree["split_conditions"].pop(),
    "parent out of bounds": lambda tree: tree["parents"].__setitem__(1, 16384),
    "parent of another node": lambda tree: tree["parents"].__setitem__(1, 2),
    "categories out of bounds": lambda tree: tree.update(
        categories_nodes=[0], categories_segments=[0], categories_sizes=[9], categories=[]
    ),
    "a text for a number": lambda tree: tree["left_children"].__setitem__(0, "1"),
}


@pytest.mark.boosting
@pytest.mark.parametrize("damage", DAMAGE)
def test_trees_of_xgboost_that_are_no_trees_are_refused(damage: str, tmp_path: Path) -> None:
    frame, labels = people()
    path, _, _ = saved("booster json", tmp_path, frame, labels)
    content = json.loads(path.read_text())
    DAMAGE[damage](tree_of_xgboost(content))
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=says(DAMAGED_MODEL_FILE, package="xgboost")):
        read_object(path)


@pytest.mark.boosting
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("left_child=1", "left_child=0"),
        ("left_child=1", "left_child=999999"),
        ("split_feature=", "split_feature=77 "),
        ("num_leaves=", "num_leaves=99999999"),
        ("max_feature_idx=", "max_feature_idx=99999999999"),
        ("num_cat=", "num_cat=9"),
        ("tree", "trees are nice"),
    ],
)
def test_trees_of_lightgbm_that_are_no_trees_are_refused(old: str, new: str, tmp_path: Path) -> None:
    frame, labels = people()
    path, _, _ = saved("lightgbm txt", tmp_path, frame, labels)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ModelError, match=says(DAMAGED_MODEL_FILE, package="lightgbm")):
        read_object(path)


@pytest.mark.boosting
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[linear_tree: 0]", "[linear_tree 0]"),
        ("[max_bin: 255]", '[max_bin: 25"!'),
        ("end of parameters", "end of paraeters"),
        ("[lambdarank_norm: 1]", "Tree=2\nnum_leaves=5\nsplit_feat"),
    ],
)
def test_damaged_parameters_of_lightgbm_never_reach_it(old: str, new: str, tmp_path: Path) -> None:
    """These crashed LightGBM, some at once and some later; they belong to the training and decide nothing."""
    frame, labels = people()
    path, said, chosen = saved("lightgbm txt", tmp_path, frame, labels)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    verdict = fairchain.verify(path, about(frame, **said), data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.boosting
@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "binary"},
        {"objective": "multiclass", "num_class": 3},
        {"objective": "regression", "linear_tree": True},
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"objective": "binary", "boosting": "dart"},
        {"objective": "binary", "monotone_constraints": [1, 0]},
    ],
    ids=str,
)
def test_text_of_lightgbm_that_is_written_anew_predicts_the_same(settings: dict[str, Any]) -> None:
    import lightgbm
    import numpy as np

    random = np.random.default_rng(0)
    rows = np.column_stack([random.integers(0, 10, 500), random.normal(size=500)])
    labels = random.integers(0, settings.get("num_class", 2), 500)
    trained = lightgbm.train({**settings, "verbose": -1, "num_threads": 1}, lightgbm.Dataset(rows, labels), 5)
    text = trained.model_to_string()
    anew = checked_text(text)
    assert checked_text(anew) == anew
    again = lightgbm.Booster(model_str=anew)
    assert np.array_equal(again.predict(rows), trained.predict(rows))
    assert again.params["objective"] == trained.params["objective"]


def deep_tree(levels: int) -> str:
    """Return LightGBM's text of one tree, each split of which has a leaf and the next split."""
    splits = {
        "split_feature": ["0"] * levels,
        "threshold": ["0.5"] * levels,
        "decision_type": ["2"] * levels,
        "left_child": [str(-1 - place) for place in range(levels)],
        "right_child": [*map(str, range(1, levels)), str(-1 - levels)],
        "leaf_value": ["0.1"] * (levels + 1),
    }
    lines = [f"num_leaves={levels + 1}", "num_cat=0", *(f"{key}={' '.join(each)}" for key, each in splits.items())]
    tree = "\n".join(["Tree=0", *lines, "is_linear=0", "shrinkage=1", "", "", ""])
    head = (
        f"tree\nversion=v4\nnum_class=1\nmax_feature_idx=0\nfeature_names=x\nfeature_infos=none\ntree_sizes={len(tree)}"
    )
    return f"{head}\n\n{tree}end of trees\n"


def test_a_tree_too_deep_for_recursion_is_refused() -> None:
    assert "right_child" in checked_text(deep_tree(900))
    with pytest.raises(ValueError, match=says(TREE_TOO_DEEP)):
        checked_text(deep_tree(30_000))


@pytest.mark.boosting
def test_a_crash_of_catboost_is_an_error_and_copies_have_processes_of_their_own(tmp_path: Path) -> None:
    """Damaged files that CatBoost reads, and that crash it at some later row, do not end the caller."""
    frame, labels = people()
    path, _, chosen = saved("catboost cbm", tmp_path, frame, labels)
    model = read_object(path)
    assert isinstance(model, CatBoostFile)
    copy = pickle.loads(pickle.dumps(model))
    model._process.kill()
    with pytest.raises(ModelError, match=says(DAMAGED_MODEL_FILE, package="catboost", why=CRASHES)):
        model.predict(frame)
    assert ((copy.predict(frame, prediction_type="Class") == LABELS[1]) == chosen).all()
    copy._end()
    assert copy._process.wait() < 0


@pytest.mark.boosting
@pytest.mark.parametrize("kind", KINDS)
def test_half_a_file_is_refused(kind: str, tmp_path: Path) -> None:
    frame, labels = people()
    path, _, _ = saved(kind, tmp_path, frame, labels)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ModelError, match=says_one_of(DAMAGED_MODEL_FILE, DAMAGED_ARCHIVE)):
        read_object(path)


@pytest.mark.boosting
def test_types_that_skops_does_not_trust_are_listed_and_the_advice_works(tmp_path: Path) -> None:
    import skops.io
    from sklearn.ensemble import RandomForestClassifier

    frame, labels = people()
    model = RandomForestClassifier(5, random_state=0).fit(frame[["age"]], labels)
    skops.io.dump(model, tmp_path / "model.skops")
    with pytest.raises(ModelError, match=says(UNTRUSTED_TYPES, untrusted='"sklearn.tree._tree.Tree"')):
        load_model(tmp_path / "model.skops", about(frame, ["age"]))
    loaded = skops.io.load(tmp_path / "model.skops", trusted=["sklearn.tree._tree.Tree"])
    verdict = fairchain.verify(loaded, about(frame, ["age"]), data=frame)
    expected = gap(model.predict(frame[["age"]]) == LABELS[1], frame["sex"])
    assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)


@pytest.mark.boosting
def test_an_estimator_uses_the_trees_of_its_best_iteration(tmp_path: Path) -> None:
    import xgboost

    frame, labels = people()
    inputs, above = frame[["age", "hours-per-week"]], (labels == LABELS[1]).astype(int)
    model = xgboost.XGBClassifier(n_estimators=200, max_depth=6, learning_rate=0.5, early_stopping_rounds=3)
    model.fit(inputs[:300], above[:300], eval_set=[(inputs[300:], above[300:])], verbose=False)
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    model.save_model(tmp_path / "model.json")
    question = about(frame, list(inputs), codes=[0, 1])
    expected = gap(model.predict(inputs) == 1, frame["sex"])
    for source in (model, tmp_path / "model.json"):
        for certify in (False, True):
            verdict = fairchain.verify(source, question, data=frame, certify=certify)
            assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)


def test_a_pickle_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match=says(next(iter(NOT_READ.values())))):
        load_model(tmp_path / "model.pkl", spec())
