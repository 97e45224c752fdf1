"""Promises about files of torch and Keras: unpacked within limits, read once, and never cast to other numbers."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import Limits
from fairchain.models.adapters.converting import DAMAGED_ARCHIVE, MEMBER_TWICE, UNPACKED_TOO_LARGE, unpacked
from fairchain.models.adapters.from_keras import (
    LAYER_TOO_LARGE,
    WEIGHTS_TOO_LARGE,
    WEIGHTS_WOULD_BE_CAST,
    _check_weights,
    check_keras_file,
)
from fairchain.models.adapters.from_torch import TENSOR_TYPE_DIFFERS
from fairchain.models.base import DEPENDS_ON_BATCH
from fairchain.models.load import load_model
from fairchain.system.untrusted_files import NOT_PLAIN_FILE
from tests.messages import says
from tests.questions import spec

SMALL = Limits(file_bytes=100_000)


def archive(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return buffer.getvalue()


def described(**layer: Any) -> bytes:
    return json.dumps({"class_name": "Dense", "module": "keras.layers", "config": {"units": 3, **layer}}).encode()


def weights(**arrays: Any) -> bytes:
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip" if np.ndim(array) else None)
    return buffer.getvalue()


def test_a_member_that_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    content = archive({"config.json": described(), "model.weights.h5": b"\0" * 1_000_000})
    assert len(content) < 5000
    path = tmp_path / "model.keras"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=says(UNPACKED_TOO_LARGE, most="100000")):
        check_keras_file(path, SMALL)


def test_a_member_whose_stated_size_is_too_large_is_refused_unread() -> None:
    content = bytearray(archive({"data.pkl": b"\0" * 1000}))
    at = content.index(b"PK\x01\x02") + 24  # its size in the directory of the archive
    content[at : at + 4] = (10**9).to_bytes(4, "little")
    with pytest.raises(ModelError, match=says(UNPACKED_TOO_LARGE)):
        unpacked(Path("state.pt"), bytes(content), 100_000, "a state dict")


def test_damaged_members_and_members_that_come_twice_are_refused() -> None:
    content = bytearray(archive({"config.json": described() * 50}))
    at = content.index(b"config.json") + 30
    content[at] ^= 0xFF
    with pytest.raises(ModelError, match=says(DAMAGED_ARCHIVE)):
        unpacked(Path("model.keras"), bytes(content), 100_000, "a .keras file")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("config.json", b"{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("config.json", b"[]")
    with pytest.raises(ModelError, match=says(MEMBER_TWICE)):
        unpacked(Path("model.keras"), buffer.getvalue(), 100_000, "a .keras file")


def test_a_member_without_a_name_is_a_member_like_others() -> None:
    content = archive({"x": b"1", "config.json": b"{}"})
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as file:
        file.infolist()[0].filename = ""
        file.comment = b"written again"
    assert unpacked(Path("model.keras"), buffer.getvalue(), 100_000, "a .keras file", ["config.json"]) == {
        "config.json": b"{}"
    }


@pytest.mark.boosting
def test_weights_that_unpack_to_more_than_the_limit_are_refused() -> None:
    packed = weights(w=np.zeros((1000, 1000), np.float32))
    assert len(packed) < 100_000
    parts = {"config.json": described(), "model.weights.h5": packed}
    with pytest.raises(ModelError, match=says(WEIGHTS_TOO_LARGE)):
        _check_weights(Path("model.keras"), parts, SMALL)


@pytest.mark.boosting
def test_a_layer_that_is_larger_than_all_weights_is_refused_before_it_is_built() -> None:
    parts = {"config.json": described(units=400_000_000), "model.weights.h5": weights(w=np.zeros((4, 3), np.float32))}
    with pytest.raises(ModelError, match=says(LAYER_TOO_LARGE, key="units", part="400000000", elements="12")):
        _check_weights(Path("model.keras"), parts, SMALL)
    parts["config.json"] = described()
    _check_weights(Path("model.keras"), parts, SMALL)


@pytest.mark.boosting
@pytest.mark.parametrize("kind", [np.complex64, np.bool_, np.int8])
def test_weights_of_keras_that_are_no_fractions_are_refused(kind: Any) -> None:
    parts = {"config.json": described(), "model.weights.h5": weights(w=np.ones((4, 3), kind))}
    with pytest.raises(ModelError, match=says(WEIGHTS_WOULD_BE_CAST)):
        _check_weights(Path("model.keras"), parts, SMALL)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["complex64", "bool", "int8"])
def test_weights_of_torch_that_are_no_fractions_are_refused(tmp_path: Path, kind: str) -> None:
    import torch

    module, path = torch.nn.Linear(2, 2), tmp_path / "state.pt"
    torch.save({name: value.to(getattr(torch, kind)) for name, value in module.state_dict().items()}, path)
    with pytest.raises(ModelError, match=says(TENSOR_TYPE_DIFFERS)):
        load_model(module, spec(), weights=path)
    torch.save({name: value.double() for name, value in module.state_dict().items()}, path)
    assert load_model(module, spec(), weights=path).predict(np.ones((2, 2))).shape == (2,)


@pytest.mark.torch
def test_a_state_dict_that_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    import torch

    saved = io.BytesIO()
    torch.save({"weight": torch.zeros(2, 200_000), "bias": torch.zeros(2)}, saved)
    with zipfile.ZipFile(io.BytesIO(saved.getvalue())) as file:
        parts = {entry.filename: file.read(entry) for entry in file.infolist()}
    path = tmp_path / "state.pt"
    path.write_bytes(archive(parts))
    assert path.stat().st_size < 100_000
    with pytest.raises(ModelError, match=says(UNPACKED_TOO_LARGE)):
        load_model(torch.nn.Linear(2, 2), spec(), SMALL, weights=path)


@pytest.mark.torch
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
def test_a_pipe_as_weights_is_refused_without_waiting(tmp_path: Path) -> None:
    import torch

    os.mkfifo(tmp_path / "state.pt")
    with pytest.raises(ModelError, match=says(NOT_PLAIN_FILE)):
        load_model(torch.nn.Linear(2, 2), spec(), weights=tmp_path / "state.pt")


@pytest.mark.torch
def test_a_module_that_answers_otherwise_in_large_batches_is_refused() -> None:
    import torch

    class Large(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x if len(x) <= 100 else -x

    with pytest.raises(ModelError, match=says(DEPENDS_ON_BATCH)):
        load_model(Large(), spec())


def test_a_function_that_answers_otherwise_in_large_batches_is_refused() -> None:
    with pytest.raises(ModelError, match=says(DEPENDS_ON_BATCH)):
        load_model(lambda x: (x[:, 0] > 4) ^ (len(x) > 5000), spec())


def test_a_function_gets_no_batch_that_is_larger_than_those_tried() -> None:
    sizes = []

    def older(x: Any) -> Any:
        sizes.append(len(x))
        return (x[:, 0] > 4).astype(int)

    model = load_model(older, spec())
    tried = max(sizes)
    rows = np.tile([[3.0, 0.0], [7.0, 1.0]], (15_000, 1))
    assert model.predict(rows).tolist() == [0, 1] * 15_000
    assert max(sizes) == tried


def test_a_bug_of_ours_is_not_hidden_behind_the_export_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairchain.models.adapters import from_keras

    def broken(*_: Any) -> bytes:
        raise TypeError("a bug")

    class Model:
        name, inputs = "model", (np.zeros((1, 2)),)

    monkeypatch.setattr(from_keras, "to_network", broken)
    with pytest.raises(TypeError, match="a bug"):
        from_keras.from_keras(Model(), spec())


@pytest.mark.boosting
def test_a_keras_file_that_is_replaced_after_its_check_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairchain.models.adapters import from_keras

    opened = []

    class Saving:
        @staticmethod
        def load_model(path: Path, **_: Any) -> Any:
            with zipfile.ZipFile(path) as file:
                opened.append((path, json.loads(file.read("config.json"))))
            raise ValueError("seen")

    class Keras:
        __version__, saving = "3.13.2", Saving

    def swap(_: Path) -> Any:
        path.write_bytes(archive({"config.json": described(units=9)}))
        return Keras

    path = tmp_path / "model.keras"
    path.write_bytes(archive({"config.json": described(), "model.weights.h5": weights(w=np.zeros((4, 3), np.float32))}))
    monkeypatch.setattr(from_keras, "_keras", swap)
    with pytest.raises(ModelError, match="seen"):
        from_keras.from_keras_file(path, spec())
    ((copy, layer),) = opened
    assert copy != path
    assert layer["config"]["units"] == 3
