"""Chains over time learned from a recurrent network: exact, the same for all workers, and asked at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairchain.chain import read_chain, write_chain
from fairchain.chain.context import LastSteps, probe_of
from fairchain.chain.learn import NO_STATES_OVER_TIME, UNKNOWN_FAMILY_VIEW, learn_chain, learn_family
from fairchain.errors import ChainError, FairchainError
from fairchain.models import OnnxModel
from fairchain.models.base import random_inputs
from fairchain.pctl import check_chain
from fairchain.populations import UniformPopulation
from fairchain.spec import Spec
from tests.chain.recurrent import CELLS, STEPS, series, texts
from tests.cli.test_commands import Cli
from tests.messages import says


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    return series(tmp_path_factory.mktemp("series"))


def counted(spec: Spec, rounds: int) -> np.ndarray:
    """(groups, labels): frequencies by asking the network directly about the same people; one chunk."""
    model = OnnxModel(str(spec.model.path), spec)
    drawn = UniformPopulation(spec, dtype=model.dtype).rounds(0, 0, rounds)
    return np.stack([np.bincount(model.predict(drawn.show(group)), minlength=2) for group in range(2)]) / rounds


@pytest.mark.parametrize("view", ["folded", "unrolled", "last"])
@pytest.mark.parametrize("states", ["lstm1:kmeans=3", "lstm1[1]:sign", "lstm1.cell[0]:bins=-0.5,0.5"])
def test_a_product_chain_reaches_labels_as_often_as_they_were_counted(spec: Spec, states: str, view: str) -> None:
    chain = learn_chain(None, spec, units=[states], view=view, rounds=3000, seed=0)  # type: ignore[arg-type]
    direct = counted(spec, 3000)
    for label, word in enumerate(spec.model.labels):
        values = check_chain(chain, f'P=? [ F "Y={word}" ]').values
        assert values[1:3] == pytest.approx(direct[:, label], abs=1e-12)


def test_an_unrolled_chain_says_where_the_network_is_after_each_step(spec: Spec) -> None:
    chain = learn_chain(None, spec, units=["lstm1[0]"], view="unrolled", rounds=2000, seed=0)
    model = OnnxModel(str(spec.model.path), spec)
    probe = probe_of(model, spec, ["lstm1"])
    assert isinstance(probe, LastSteps)
    drawn = UniformPopulation(spec, dtype=model.dtype).rounds(0, 0, 2000)
    for group, name in enumerate(chain.states[1:3]):
        shown = probe.steps(drawn.show(group))
        on = (shown.states["lstm1"][:, :, 0] > 0) & (np.arange(STEPS) < shown.lengths[:, None])
        for step in range(STEPS):
            answer = check_chain(chain, f'P=? [ F "lstm1[0]@{step + 1} on" ]', start=name)
            assert answer.value == pytest.approx(on[:, step].mean(), abs=1e-12)


@pytest.mark.parametrize("varied", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_last_step_is_what_the_network_goes_on_with(tmp_path: Path, direction: str, varied: bool) -> None:
    spec = series(tmp_path, direction=direction, varied=varied)
    model = OnnxModel(str(spec.model.path), spec)
    people = random_inputs(spec.features, 50).astype(model.dtype)
    _, hidden = probe_of(model, spec, ["lstm1", "hidden"])(people)
    assert hidden["lstm1"] == pytest.approx(hidden["hidden"], abs=1e-6)
    assert hidden["lstm1"].shape[1] == CELLS * (2 if direction == "bidirectional" else 1)


@pytest.mark.parametrize("kind", ["product", "shared"])
@pytest.mark.parametrize("view", ["folded", "unrolled"])
def test_the_same_chain_whatever_the_workers(spec: Spec, view: str, kind: str) -> None:
    one, two = (
        learn_chain(None, spec, units=["lstm1:kmeans=2"], view=view, chain=kind, rounds=5000, workers=workers)  # type: ignore[arg-type]
        for workers in (1, 2)
    )
    assert one == two
    assert one.metadata["view"] == view
    assert {"estimate", "steps", "visits"} <= one.metadata["fidelity"].keys()


def test_units_behind_the_recurrent_layer_follow_the_last_step(tmp_path: Path) -> None:
    spec = series(tmp_path, dense=True, varied=False)
    chain = learn_chain(None, spec, units=["lstm1:kmeans=2", "layer1[0]", "layer1[1]"], rounds=1000)
    assert len(chain) == 1 + 2 + 2 * (2 + 2 + 2) + 2
    direct = counted(spec, 1000)
    assert check_chain(chain, 'P=? [ F "Y=yes" ]').values[1:3] == pytest.approx(direct[:, 1], abs=1e-12)
    assert check_chain(chain, 'P=? [ F "layer1[0] on" ]').value > 0


def test_a_family_of_cells_from_one_pass_is_what_each_alone_would_be(spec: Spec) -> None:
    units = ["lstm1[0]", "lstm1.cell[2]:sign"]
    family = learn_family(None, spec, units=units, view="folded", rounds=1500)
    for unit in units:
        assert np.array_equal(family[unit].counts, learn_chain(None, spec, units=[unit], rounds=1500).counts)  # type: ignore[arg-type]
    assert list(learn_family(None, spec, view="folded", rounds=50)) == [f"lstm1[{cell}]" for cell in range(CELLS)]
    last = learn_family(None, spec, units=["lstm1[0]", "x0:sign"], rounds=1500)
    assert last["lstm1[0]"].metadata["rounds"] == 1500
    assert len(last["lstm1[0]"]) == 1 + 2 + 4 + 2
    assert {"lstm1[0]", "lstm1[2]"} <= learn_family(None, spec, rounds=50).keys()


@pytest.mark.parametrize("view", ["folded", "unrolled"])
def test_epsilon_goes_on_until_every_transition_is_known(spec: Spec, view: str) -> None:
    chain = learn_chain(None, spec, units=["lstm1[0]"], view=view, epsilon=0.1)  # type: ignore[arg-type]
    assert chain.low is not None
    assert chain.high is not None
    learned = (chain.sources > 0) & (chain.targets != chain.sources)
    assert np.maximum(chain.high - chain.probabilities, chain.probabilities - chain.low)[learned].max() <= 0.1
    paper = learn_chain(None, spec, units=["lstm1[0]"], view=view, epsilon=0.1, rule="paper")  # type: ignore[arg-type]
    assert not paper.metadata["sound"]


@pytest.mark.parametrize(
    ("states", "view", "message"),
    [
        (["lstm1[0]", "lstm1[1]"], None, "one recurrent unit"),
        (["x0", "lstm1[1]"], "folded", "is named before the recurrent unit"),
        (["x0"], "folded", "name one of lstm1, lstm1.cell"),
        (["lstm1"], "rolled", 'unknown view "rolled"; did you mean "unrolled"?'),
        (["lstm1[3]"], None, '"lstm1" has 3 units'),
        (["lstn1"], None, "did you mean lstm1"),
        (["comment"], None, 'unknown layer or tensor "comment"; expected one of lstm1, lstm1.cell'),
        (["lstm1:sign"], None, "whole layer"),
        (["lstm1[0]:kmeens=2"], None, 'unknown method "kmeens"'),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_cannot_be_had_is_one_message(spec: Spec, states: list[str], view: str | None, message: str) -> None:
    with pytest.raises(FairchainError, match=message) as caught:
        learn_chain(None, spec, units=states, view=view, rounds=100)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_unit_without_steps_has_no_folded_chain(spec: Spec) -> None:
    with pytest.raises(ChainError, match=says(NO_STATES_OVER_TIME, text="x0")):
        learn_family(None, spec, units=["lstm1[0]", "x0"], view="folded", rounds=100)
    with pytest.raises(ChainError, match=says(UNKNOWN_FAMILY_VIEW)):
        learn_family(None, spec, units=["lstm1[0]"], view="unrolled", rounds=100)  # type: ignore[arg-type]


def test_a_learned_chain_is_written_with_its_fidelity(spec: Spec, tmp_path: Path) -> None:
    chain = learn_chain(None, spec, units=["lstm1:kmeans=2"], rounds=500)
    assert read_chain(write_chain(chain, tmp_path / "chain.json")[0]) == chain
    assert "(product, folded, frequency)" in str(chain)
    assert "of P(state after a step)" in str(chain)


def test_at_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    spec = series(tmp_path)
    lines = [f"[model]\npath = {str(spec.model.path)!r}\nlabels = ['no', 'yes']"]
    for feature in spec.features:
        kind = {
            "sex": "kind = 'category'\nvalues = ['Female', 'Male']",
            "count": f"kind = 'integer'\nlow = 1\nhigh = {STEPS}",
        }
        lines.append(
            f"[[feature]]\nname = {feature.name!r}\n" + kind.get(feature.name, "kind = 'real'\nlow = -1\nhigh = 1")
        )
    lines.append("[property]\nkind = 'difference'\nprotected = ['sex']\nthreshold = 0.1")
    (tmp_path / "audit.toml").write_text("\n".join(lines))
    cli = Cli(monkeypatch, capsys)
    learn = ["--units", "lstm1:kmeans=2", "--rounds", "1000"]
    code, out, _ = cli("query", "audit.toml", 'P=? [ F "lstm1 cluster 2" ]', *learn)
    assert code == 0
    assert "P(state after a step) is wrong by up to" in out
    assert "(sampling error only)" not in out
    assert "(sampling error only)" in cli("query", "audit.toml", 'P=? [ F "step=3" ]', "--view", "unrolled", *learn)[1]
    code, out, _ = cli("query", "audit.toml", 'P=? [ F "step=3" ]', "--json", "--view", "unrolled", *learn)
    answer = json.loads(out)
    assert answer["chain"]["view"] == "unrolled"
    assert answer["low"] <= answer["value"] <= answer["high"]
    for form in ("dot", "prism", "drn"):
        code, out, _ = cli("export", "audit.toml", "--format", form, *learn)
        assert code == 0
        assert "lstm1 cluster 2" in out or form == "prism"
    code, _, err = cli("query", "audit.toml", 'P=? [ F "Y=yes" ]', "--view", "folded")
    assert code == 2
    assert "lstm1" in err


def test_a_network_that_reads_texts(tmp_path: Path) -> None:
    """Texts have 3 to 6 words that the network knows and is told the number of."""
    spec = texts(tmp_path)
    folded = learn_chain(None, spec, units=["gru1:kmeans=2"], rounds=1000)
    unrolled = learn_chain(None, spec, units=["gru1[0]"], view="unrolled", rounds=1000)
    assert check_chain(unrolled, 'P=? [ F "step=3" ]').value == pytest.approx(1, abs=1e-12)
    assert check_chain(unrolled, 'P=? [ F "step=6" ]').value < 0.9
    steps = 'R=? [ F ("Y=fine" | "Y=toxic") ]'
    assert check_chain(folded, steps).value == pytest.approx(check_chain(unrolled, steps).value, abs=1e-9)
    for name in folded.states[1:3]:
        one, two = (check_chain(chain, 'P=? [ F "Y=toxic" ]', start=name).value for chain in (folded, unrolled))
        assert one == pytest.approx(two, abs=1e-12)
    with pytest.raises(FairchainError, match="animal"):
        learn_chain(None, spec, units=["animal"], rounds=10)
