"""Every run of one question about one network draws by the same seed, unless one is chosen."""

from __future__ import annotations

from pathlib import Path

from fairchain import explain, learn_chain, make_certificate, parse_spec, verify
from fairchain.models import OnnxModel
from fairchain.spec import Spec
from fairchain.spec.seeds import seed_of
from tests.networks import linear, save
from tests.questions import category, integer, question


def asked(folder: Path, weight: float = 1.0) -> Spec:
    path = save(linear([[0, weight], [0, 1.0]], [3.5, 0]), folder / f"{weight}.onnx")
    return parse_spec(question(integer("age"), category("sex", "Female", "Male"), path=str(path)))


def test_verify_explain_and_chains_share_the_derived_seed(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    seed = seed_of(spec, OnnxModel(str(spec.model.path), spec).sha256, None)
    assert seed.origin == "derived"
    verdict = verify(None, spec)
    assert verdict.to_dict()["seed"] == seed.value
    assert f"seed {seed.value}, derived from the network" in verdict.scope
    found = explain(None, spec, rounds=64, workers=1)
    assert (found.seed, found.seed_origin) == (seed.value, "derived")
    assert learn_chain(None, spec, rounds=64).metadata["seed"] == seed.value
    # A chosen seed of the same number draws the same inputs, and is called chosen.
    chosen = verify(None, spec, seed=seed.value)
    assert make_certificate(chosen)["evidence"] == make_certificate(verdict)["evidence"]
    assert chosen.to_dict()["seed_origin"] == "chosen"


def test_the_same_question_gives_the_same_counts_and_another_network_other_inputs(tmp_path: Path) -> None:
    one, again, other = (verify(None, asked(tmp_path, weight)) for weight in (1.0, 1.0, 1.5))
    assert make_certificate(one)["evidence"] == make_certificate(again)["evidence"]
    assert one.to_dict()["seed"] != other.to_dict()["seed"]
