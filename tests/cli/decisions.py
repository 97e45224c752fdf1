"""Decisions as `fairchain monitor` reads them, and what it says about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairchain.monitoring import Monitor

ASK = ("--protected", "sex", "--prediction", "decision", "--outcome", "yes", "--threshold", "0.1")
FAIR, UNFAIR, EQUAL = (0.4, 0.41), (0.2, 0.6), (0.4, 0.5)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Ended]


def people(size: int, rates: tuple[float, float] = UNFAIR, seed: int = 0) -> list[tuple[str, str, str]]:
    """(sex, race, decision) of each row; the first rate is that of women."""
    rng = np.random.default_rng(seed)
    man, race = rng.integers(0, 2, size), rng.integers(0, 2, size)
    yes = rng.random(size) < np.array(rates)[man]
    return [
        (["Female", "Male"][m], ["White", "Black"][r], ["no", "yes"][int(y)])
        for m, r, y in zip(man, race, yes, strict=True)
    ]


def as_csv(rows: list[tuple[str, str, str]], header: bool = True) -> bytes:
    text = "id,sex,race,decision\n" * header + "".join(f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(rows))
    return text.encode()


def as_jsonl(rows: list[tuple[str, str, str]]) -> bytes:
    return "".join(json.dumps({"sex": a, "race": b, "decision": c}) + "\n" for a, b, c in rows).encode()


def moment(rows: list[tuple[str, str, str]], threshold: float = 0.1) -> int:
    """After how many rows looking at every row decides."""
    watcher = Monitor(threshold)
    found = watcher.update_many([sex for sex, _, _ in rows], [decision == "yes" for _, _, decision in rows])
    assert found is not None
    return found + 1


def says(ended: Ended, *words: str) -> None:
    """Exit code 2 and one line with these words."""
    assert ended.code == 2, ended
    assert ended.err.startswith("fairchain: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err
