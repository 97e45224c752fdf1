"""Hostile files, made by code: every one that once ended in a crash, a hang, a flood of memory or a foreign exception.

They are tried before any mutant, and small ones are damaged further.
"""

from __future__ import annotations

import gzip
import inspect
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.fuzzing.mutate import zipped

LONG = "1" + "0" * 400
DEEP = 20_000


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _changed(content: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    for old, new in changes:
        content = content.replace(old, new, 1)
    return content


def _onnx() -> list[bytes]:
    return [network.SerializeToString() for network in (*_crashing(), *_hostile_networks())]


def _crashing() -> list[Any]:
    """Return networks that bring onnxruntime down: the smallest number over -1, and an output without a name."""
    from tests.networks import INT64, constant, graph, node, value

    over = [
        node("Cast", ["x"], ["i"], to=INT64),
        node("Mul", ["i", "zero"], ["none"]),
        node("Add", ["none", "least"], ["a"]),
        node("Div", ["a", "minus"], ["d"]),
        node("Cast", ["d"], ["y"], to=1),
    ]
    numbers = {"zero": [0], "least": [-(2**63)], "minus": [-1]}
    split = [node("Split", ["x"], ["y", ""], axis=1)]
    return [
        graph(over, [value("x")], [value("y")], [constant(name, number, np.int64) for name, number in numbers.items()]),
        graph(split, [value("x")], [value("y", shape=("N", 1))]),
    ]


def _hostile_networks() -> list[Any]:
    """Return what the generators of hostile networks make."""
    if find_spec("tests.hostile") is None:
        return []
    hostile = import_module("tests.hostile")
    found = []
    for name, make in vars(hostile).items():
        if name.startswith("_") or not inspect.isfunction(make) or make.__module__ != hostile.__name__:
            continue
        signature = inspect.signature(make)
        if signature.return_annotation != "ModelProto":
            continue
        needed = [each for each in signature.parameters.values() if each.default is each.empty]
        if not needed:
            found.append(make())
        elif name in ARGUMENTS and len(needed) == 1:
            found += [make(value) for value in ARGUMENTS[name]]
    return found


# So many of the first files of a target are tried as they are only: what comes of damage to them crashes just as well.
AS_THEY_ARE = {"onnx": 2}
# For generators that take an argument.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "shadowing": ("", "ai.onnx", "com.microsoft"),
    "nested_functions": (3, 300),
    "fixed_batch": (1, 2**31, 2**62),
}


def _parquet() -> list[bytes]:
    import polars

    def written(frame: Any) -> bytes:
        file = io.BytesIO()
        frame.write_parquet(file)
        return file.getvalue()

    one = polars.Series(["a" * 2**20], dtype=polars.Categorical)
    # A kilobyte that stands for four gigabytes, and for a number of bytes that is 0 in 32 bits.
    shared = polars.DataFrame({"t": one.gather(polars.zeros(2**12, polars.UInt32, eager=True))})
    equal = polars.DataFrame({"t": polars.repeat(1, 5_000_000, eager=True)})
    return [written(shared), written(equal), b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1"]


def _csv() -> list[bytes]:
    return [
        b'\n \n\r\nage,sex\n1,a\n2,"b" c\n',
        b"age,sex\n1,Ma\0le\n",
        b'age,sex\n"1,Male\n',
        b"age," * 20_000 + b"sex\n",
        b"age,sex\n" + b"9" * 5000 + b",Male\n",
        b"\xff\xfea\0g\0e\0",
        b"age,sex\r1,Male\r",
        "age,sex\n1,\u2028Male\u202e\n".encode(),
    ]


def _gzipped() -> list[bytes]:
    bomb = gzip.compress(b"age,sex\n" + b"1,Male\n" * 2_000_000, mtime=0)
    return [bomb, gzip.compress(b"", mtime=0), bomb[:50], *(gzip.compress(each, mtime=0) for each in _csv())]


def _deep_json() -> list[bytes]:
    return [
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'"\\ud800"',
        b"null",
        b"",
        b"1" * 5000,
        LONG.encode(),
    ]


def _socrates() -> list[bytes]:
    def network(weights: Any, bias: Any = (0.0, 0.0), shape: Any = "(1,2)", **more: Any) -> bytes:
        layer = {"type": "linear", "weights": weights, "bias": bias, **more}
        return _json({"model": {"shape": shape, "layers": [layer]}})

    number = 10**400
    return [
        network([[number, 1], [1, 1]]),
        network(f"[[{LONG}, 1], [1, 1]]"),
        network([[1e300, 1], [1, 1]]),
        network([[1, 1], [1]]),
        network([[1, 1], [1, 1]], bias=number),
        network([[1, 1], [1, 1]], shape=f"(1,{LONG})"),
        network([[1, 1], [1, 1]], shape="(1,2147483647)"),
        network("[" * DEEP),
        network("../../etc/passwd"),
        network("/dev/zero"),
        network([[1, 1], [1, 1]], func=number),
        *_deep_json(),
    ]


def _weights() -> list[bytes]:
    return [f"[[{LONG}, 1], [1, 1]]".encode(), b"[" * DEEP, b"1e999", b"[[1, 2], [3]]", b"", b"()", b"--1", b"1" * 5000]


def _states() -> list[bytes]:
    class Evil:
        def __reduce__(self) -> Any:
            return print, ("code of the file runs",)

    return [pickle.dumps(Evil()), b"", b"PK\3\4", zipped([("archive/data.pkl", pickle.dumps(Evil()))])]


def _keras() -> list[bytes]:
    layer = {"module": "keras.layers", "class_name": "Lambda", "config": {}}
    good = zipped([("config.json", _json({"class_name": "Sequential", "module": "keras"}) * 20)])
    start = good.index(b"config.json") + len("config.json")
    return [
        good[: start + 4] + b"\xff" * 20 + good[start + 24 :],
        zipped([("config.json", _json(layer))]),
        zipped([("config.json", b" " * 10**7 + b"{}")]),
        zipped([("config.json", b"{}"), ("config.json", _json(layer))]),
        zipped([("config.json", b"{}" * 50)], zipfile.ZIP_LZMA).replace(b"\x5d\0\0", b"\xff\xff\xff", 1),
        zipped([("config.json", b"{}" * 50)], zipfile.ZIP_BZIP2).replace(b"BZh9", b"BZh\0", 1),
        *(zipped([("config.json", each)]) for each in _deep_json()),
        zipped([]),
    ]


def _lightgbm() -> list[bytes]:
    from tests.fuzzing.targets import TARGETS

    whole = TARGETS["lightgbm"].seeds()[0]
    changes = [
        (b"[linear_tree: 0]", b"[linear_tree 0]"),
        (b"[max_bin: 255]", b'[max_bin: 25"!'),
        (b"end of parameters", b"end of paraeters"),
        (b"[lambdarank_norm: 1]", b"age=0.1\n\n\nTree=2\nnum_leaves=5\nnum_cat=1\nsplit_feat"),
        (b"is_linear=0", b"is_linear=1"),
        (b"decision_type=2", b"decision_type=-1"),
        (b"objective=binary sigmoid:1", b"objective=multiclass num_class:9"),
    ]
    return [_changed(whole, change) for change in changes]


def _certificates() -> list[bytes]:
    from tests.fuzzing.targets import TARGETS

    found = []
    for whole in TARGETS["certificate"].seeds():
        found += [
            _changed(whole, (b'"rounds":', b'"rounds": 9007199254740992, "rounds":')),
            _changed(whole, (b'"verdict":', b'"verdict": "FAIR", "verdict":')),
            _changed(whole, (b'"seed": 1', b'"seed": ' + LONG.encode())),
        ]
        content = json.loads(whole)
        if "batches" in content["evidence"]:
            for key, value in (("rounds", 2**53), ("rounds", 10**400), ("chunk", 2**62), ("chunk_rounds", 2**40)):
                batches = [{**batch, key: value} for batch in content["evidence"]["batches"]]
                found.append(_json({**content, "evidence": {**content["evidence"], "batches": batches}}))
        else:
            for value in (2**60, 10**400):
                found.append(_json({**content, "evidence": {**content["evidence"], "rows": value}}))
    return [*found, *_deep_json()]


def _monitor_states() -> list[bytes]:
    from tests.fuzzing.targets import TARGETS

    content = json.loads(TARGETS["monitor state"].seeds()[0])
    groups = content["groups"]
    many = [{"name": f"sex={i}" + "\x01" * 5000, "rows": 2, "successes": 1} for i in range(400)]
    return [
        _json({**content, "groups": [{**groups[0], "rows": 2**60, "successes": 2**60}, *groups[1:]]}),
        _json({**content, "groups": [{**groups[0], "rows": 10**400}, *groups[1:]]}),
        _json({**content, "groups": many}),
        _json({**content, "groups": [groups[0], groups[0]]}),
        _json({**content, "now": {"verdict": "FAIR", "rows": 2**60}}),
        _json({**content, "file": {"format": "csv", "bytes": 2**60, "sha256": ""}}),
        *_deep_json(),
    ]


def _audit_states() -> list[bytes]:
    from tests.fuzzing.targets import TARGETS

    whole = json.loads(TARGETS["audit state"].seeds()[0])

    def state(*names: str) -> bytes:
        return _json({**whole, "stages": {"verdict": dict.fromkeys(names, "ab")}})

    return [
        state("../outside"),
        state("a\0b"),
        state("/etc/passwd"),
        state(".."),
        state("."),
        state("", "a\0b"),
        state("x" * 300),
        *_deep_json(),
    ]


def _arrays() -> list[bytes]:
    def saved(array: Any) -> bytes:
        file = io.BytesIO()
        np.save(file, array, allow_pickle=True)
        return file.getvalue()

    whole = saved(np.ones((9, 3), np.float32))
    huge = _changed(whole, (b"(9, 3), }    ", b"(9, 3" + b"0" * 7 + b"), }"))
    return [saved(np.array([{}, 1], object)), huge, saved(np.ones((9, 3), complex)), saved(np.array(1.0)), whole[:20]]


def _binary_vectors() -> list[bytes]:
    return [b"1000000000 4096\n", b"9 0\n", b"-1 3\n", b"1" * 5000 + b" 3\n", b"2 2\n" + b"x" * 5000, b"\n" * 100]


def _bif() -> list[bytes]:
    values = ", ".join(f"v{i}" for i in range(3000))
    return [
        f"network n {{}} variable a {{ type discrete [{LONG}] {{ x, y }}; }}".encode(),
        f"network n {{}} variable a {{ type discrete [3000] {{ {values} }}; }} probability (a) {{ table 1; }}".encode(),
        b"network n {} variable a { type discrete [2] { x, y }; } probability (a | a) { (x) 0.5, 0.5; (y) 0.5, 0.5; }",
        b"network n {} variable a { type discrete [2] { x, y }; } probability (a) { table 1e309, -1e309; }",
        b"{" * DEEP,
        b"/*" * DEEP,
        b'network "' + b"a" * 10**5,
    ]


def _formulas() -> list[bytes]:
    return [
        b"(" * DEEP + b"true" + b")" * DEEP,
        b"!" * DEEP + b"true",
        b"P=? [ " * 300 + b"true" + b" ]" * 300,
        b'P=? [ F<=1000000000000000000 "good" ]',
        f'P=? [ F<={LONG} "good" ]'.encode(),
        f'P>={LONG} [ F "good" ]'.encode(),
        b'P=? [ F "' + b"x" * 10**5 + b'" ]',
        b'P>=NaN [ F "good" ]',
        b"true & " * 5000 + b"true",
    ]


def _conditions() -> list[bytes]:
    return [
        b"(" * 3000 + b"age>1" + b")" * 3000,
        b"not " * 3000 + b"age>1",
        f"age > {LONG}".encode(),
        f"age in [{', '.join(map(str, range(3000)))}]".encode(),
        b"__import__('os').system('true')",
        b"age > 1e309",
        b"age == nan",
        "ａge > 1".encode(),
    ]


def _chains_as_json() -> list[bytes]:
    from tests.fuzzing.targets import TARGETS

    whole = TARGETS["json chain"].seeds()[0]
    content = json.loads(whole)
    numbers = [
        key for key, value in content.items() if isinstance(value, list) and value and isinstance(value[0], int | float)
    ]
    return [
        _json({**content, key: [value, *content[key][1:]]}) for key in numbers for value in (10**400, 2**62, -1, 1e308)
    ]


def _drn() -> list[bytes]:
    head = b"@type: DTMC\n@parameters\n\n@reward_models\n\n@nr_states\n"
    return [
        head + size + b"\n@model\nstate 0 init\n\t0 : 1\n" for size in (LONG.encode(), b"1000000000", b"-1", b"0", b"1")
    ]


def _explicit() -> list[bytes]:
    return [
        b"5 6\n0 1 1\n",
        b"1000000000 1\n0 0 1\n",
        LONG.encode() + b" 1\n0 0 1\n",
        b"1 1\n0 0 1e309\n",
        b"1 1\n0 0 nan\n",
    ]


def _wheels() -> list[bytes]:
    data = [("toy/data.csv", b"1, a\n2, b\n" * 50)]
    packed = zipped(data)
    start = packed.index(b"data.csv") + len("data.csv")
    return [
        packed[: start + 4] + b"\xff" * 10 + packed[start + 14 :],
        zipped([("toy/data.csv", b"\0" * 10**7)]),
        zipped(data, zipfile.ZIP_LZMA).replace(b"\x5d\0\0", b"\xff\xff\xff", 1),
        zipped(data, zipfile.ZIP_BZIP2).replace(b"BZh9", b"BZh\0", 1),
        zipped([("../data.csv", b"")]),
    ]


def _own_files() -> list[bytes]:
    packed = gzip.compress(b"age,job\n" * 50, mtime=0)
    return [packed[:12] + b"\xff" * 20 + packed[32:], packed[:20], b"", b"\0" * 100]


def _specs() -> list[bytes]:
    return [
        b"a = " + b"[" * DEEP,
        b"[" * DEEP,
        f"a = {LONG}".encode(),
        b"a = " + b"1" * 5000,
        b"a = 1\na = 2\n",
        b"[a]\n[a]\n",
        b'a = "\\ud800"',
        b"\xff",
        b"",
    ]


def _decisions() -> list[bytes]:
    return [
        b"sex,d\nF\0,yes\n",
        b"sex,d\n" + b"a" * 1100 + b",yes\nM,no\n",
        b"sex,d\n" + b"x" * (2**20 + 10),
        b"sex,d\n\n\n",
        b"",
    ]


def _decisions_as_json() -> list[bytes]:
    return [
        b'{"sex": "F\\u0000", "d": "yes"}\n',
        b'{"sex": 1e309, "d": 1e-400}\n',
        b'{"sex": ' + LONG.encode() + b', "d": "no"}\n',
        b'{"sex": "\\ud800", "d": "no"}\n',
        b"[" * DEEP + b"\n",
    ]


CORPUS: dict[str, Callable[[], list[bytes]]] = {
    "onnx": _onnx,
    "parquet": _parquet,
    "csv": _csv,
    "gzipped csv": _gzipped,
    "corpus as table": _csv,
    "socrates": _socrates,
    "socrates weights": _weights,
    "torch": _states,
    "lightgbm": _lightgbm,
    "keras": _keras,
    "keras archive": _keras,
    "spec": _specs,
    "terms": _specs,
    "question": _specs,
    "spec as JSON": _deep_json,
    "terms as JSON": _deep_json,
    "bayesian network": _deep_json,
    "certificate": _certificates,
    "monitor state": _monitor_states,
    "audit state": _audit_states,
    "array of vectors": _arrays,
    "binary vectors": _binary_vectors,
    "bif": _bif,
    "formula": _formulas,
    "condition": _conditions,
    "json chain": _chains_as_json,
    "drn chain": _drn,
    "explicit chain": _explicit,
    "data archive": _wheels,
    "own data file": _own_files,
    "decisions": _decisions,
    "decisions as JSON": _decisions_as_json,
}
