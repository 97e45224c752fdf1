"""Promise: damaged networks and specs end in a FairchainError or in a result, never in a crash or another exception.

Networks are read in processes of their own, so that a crash of the runtime is seen, with the seed that made it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from fairchain.errors import FairchainError, SpecError
from fairchain.examples import example
from fairchain.spec import load_spec
from tests.child import run_child

NAMES = ("census", "credit", "bank")

NETWORKS, SPECS = 450, 150
Text = TypeVar("Text", bytes, str)

# Tries the damaged networks of seeds sys.argv[3] to sys.argv[4] and prints each seed before, so that the last line
# of a process that died is the seed that killed it.
TRY = """
import sys
from pathlib import Path
import numpy as np
from fairchain.errors import FairchainError
from fairchain.model import Limits, OnnxModel
from fairchain.spec import load_spec
from tests.test_fuzz import damaged_network
name, path, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
from fairchain.examples import example
question = load_spec(example(name))
rows = np.ones((4, len(question.features)), np.float32)
limits = Limits(memory_bytes=2**28, seconds=1)
ended = {"refused": 0, "answered": 0}
for seed in range(first, last):
    print(name, seed, file=sys.stderr, flush=True)
    path.write_bytes(damaged_network(name, seed))
    try:
        OnnxModel(path, question, limits).predict(rows)
        ended["answered"] += 1
    except FairchainError as error:
        assert str(error) and str(error).startswith(str(path)), f"{name} {seed}: {error!r}"
        ended["refused"] += 1
print(ended["refused"], ended["answered"])
"""


def damaged(whole: Text, other: Text, dice: random.Random, noise: Callable[[int], Text]) -> Text:
    """One to four flips, deletions, insertions, repetitions, truncations, or pieces spliced in from elsewhere."""
    for _ in range(dice.choice((1, 1, 2, 4))):
        start = dice.randrange(len(whole))
        end = min(len(whole), start + dice.choice((1, 1, 2, 8, 200)))
        before, piece, after = whole[:start], whole[start:end], whole[end:]
        kind = dice.choice(("flip", "delete", "insert", "repeat", "splice", "truncate"))
        if kind == "flip":
            piece = noise(len(piece))
        elif kind == "insert":
            piece += noise(dice.choice((1, 2, 8, 100)))
        elif kind == "repeat":
            piece *= 3
        elif kind == "splice":
            foreign = dice.randrange(len(other))
            piece = other[foreign : foreign + dice.choice((4, 50, 1000))]
        elif kind == "truncate" and start:
            after = whole[:0]
        else:
            piece = whole[:0]
        whole = before + piece + after or whole
    return whole


def damaged_network(name: str, seed: int) -> bytes:
    dice = random.Random(f"{name} {seed}")
    whole = example(name).with_suffix(".onnx").read_bytes()
    other = example(dice.choice(NAMES)).with_suffix(".onnx").read_bytes()
    # Most of a network's bytes are weights: half of the damage goes to the ends, where the structure is.
    if dice.random() < 0.5:
        cut = dice.choice((300, len(whole) - 600))
        part = slice(0, cut) if cut == 300 else slice(cut, len(whole))
        piece = damaged(whole[part], other, dice, dice.randbytes)
        return piece + whole[cut:] if cut == 300 else whole[:cut] + piece
    return damaged(whole, other, dice, dice.randbytes)


def damaged_text(name: str, seed: int) -> str:
    dice = random.Random(f"{name} {seed} spec")
    alphabet = "[]{}=\"'#,.\n\\ -_0123456789einfatruelsx\0é\u2028"
    whole, other = example(name).read_text(), example(dice.choice(NAMES)).read_text()
    return damaged(whole, other, dice, lambda count: "".join(dice.choices(alphabet, k=count)))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_networks_are_refused_or_answer(name: str, tmp_path: Path) -> None:
    printed = run_child(TRY, name, tmp_path / "network.onnx", 0, NETWORKS, seconds=60)
    refused, answered = map(int, printed.splitlines()[-1].split())
    assert refused + answered == NETWORKS
    # Both ways out are taken: the damage is neither always fatal nor never felt.
    assert refused > NETWORKS / 10
    assert answered > 0


@pytest.mark.parametrize("name", NAMES)
def test_damaged_specs_are_refused_or_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    refused = 0
    for seed in range(SPECS):
        path.write_text(damaged_text(name, seed))
        try:
            load_spec(path)
        except SpecError as error:
            refused += str(error).startswith(f"{path}: ")
        except Exception as error:
            raise AssertionError(f"{name} {seed}: {error!r} instead of a SpecError") from error
    assert SPECS / 10 < refused < SPECS


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_spec_of_a_good_network_is_verified_or_refused(name: str, tmp_path: Path) -> None:
    """What is still a spec may ask something else of the network: that too ends in an error or a verdict."""
    from fairchain.spec import revise
    from fairchain.verification import verify

    path = tmp_path / "audit.toml"
    network = example(name).with_suffix(".onnx")
    tried = 0
    for seed in range(SPECS):
        path.write_text(damaged_text(name, seed))
        try:
            question = revise(load_spec(path), guarantee__budget__rounds=50.0)
        except SpecError:
            continue
        tried += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                verify(network, question, workers=1)
        except FairchainError:
            continue
        except Exception as error:
            raise AssertionError(f"{name} {seed}: {error!r} instead of a FairchainError") from error
    assert tried > 5
