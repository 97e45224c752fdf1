"""Certificates of enumerations: an honest one is confirmed, and every forgery is found."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import CertificateError, make_certificate, parse_spec, recheck, verify
from fairchain.certificate_format import SegmentEvidence, chain_start, chained, digest
from fairchain.rechecking import Recheck
from fairchain.rechecking.contents import NOT_FAIRCHAIN_CERTIFICATE
from fairchain.rechecking.rechecker import NOTHING_DRAWN
from fairchain.spec.seeds import meaning_of
from fairchain.verification import enumeration
from tests.messages import says
from tests.rechecking.builders import audit, written
from tests.verification.exact import KINDS, POPULATIONS, random_answers

Content = dict[str, Any]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("enumerated"))


def certificate(folder: Path, asked: str = "difference", population: str = "uniform") -> Content:
    """About 30 inputs in segments of a few points."""
    spec = parse_spec(audit(folder, population, asked, engine="enumeration", seed=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairchain.input_space.TILE", 2)
        patch.setattr(enumeration, "TILE", 2)
        patch.setattr(enumeration, "SEGMENT_EVALUATIONS", 1)
        return make_certificate(verify(None, spec, workers=1))


def rechecked(content: Content, folder: Path, path: Path, **options: Any) -> Recheck:
    path.write_text(json.dumps({**content, "digest": digest(content)}))
    return recheck(path, folder / "network.onnx", **options)


def failing(result: Recheck) -> set[str]:
    return {claim.name for claim in result.claims if not claim.holds}


def rechained(content: Content) -> Content:
    """With every hash of the chain computed again, as a forger would."""
    spec = parse_spec(content["spec"])
    chain = chain_start(content["claims"]["model_sha256"], content["claims"]["table_sha256"], meaning_of(spec))
    for segment in content["evidence"]["segments"]:
        segment["chain"] = chain = chained(chain, SegmentEvidence(**segment))
    return content


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_an_honest_certificate_is_confirmed(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(first, first + 10):
        rng = np.random.default_rng(number)
        asked = random_answers(rng, KINDS[number % 3], POPULATIONS[number // 3 % 4])
        network, table = asked.net.save(tmp_path / "network.onnx"), None
        if asked.world.table is not None:
            table = tmp_path / "people.csv"
            with table.open("w", newline="") as file:
                csv.writer(file).writerows([list(asked.world.table), *zip(*asked.world.table.values(), strict=True)])
        tile = int(rng.choice([1, 2, 7, 8192]))
        monkeypatch.setattr("fairchain.input_space.TILE", tile)
        monkeypatch.setattr(enumeration, "TILE", tile)
        monkeypatch.setattr(enumeration, "SEGMENT_EVALUATIONS", int(rng.choice([1, 2**18])))
        spec = parse_spec(asked.spec(network, round(float(rng.uniform(0.05, 0.6)), 3), engine="enumeration"))
        content = make_certificate(verify(None, spec, data=None if table is None else str(table), workers=1))
        # The checker's own order of the points is another one: any will do.
        monkeypatch.setattr("fairchain.input_space.TILE", 8192)
        path = tmp_path / "certificate.json"
        path.write_text(json.dumps(content))
        found = recheck(path, network, data=table)
        assert failing(found) == set()
        assert (found.conclusion, found.fraction, found.seed_origin) == ("CONFIRMED", 1.0, None)


def test_a_run_that_ended_early_is_confirmed_with_its_interval(folder: Path, tmp_path: Path) -> None:
    data = audit(folder, "uniform", "difference", engine="enumeration", seed=None, budget={"seconds": 1e-9})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairchain.input_space.TILE", 2)
        patch.setattr(enumeration, "TILE", 2)
        verdict = verify(None, parse_spec(data), workers=1)
    assert (verdict.conclusion, verdict.stopped) == ("UNDECIDED", "seconds")
    assert verdict.gap.low < verdict.gap.high
    assert rechecked(make_certificate(verdict), folder, tmp_path / "c.json").conclusion == "CONFIRMED"


def moved_weight(content: Content) -> None:
    own = content["evidence"]["segments"][0]["weights"][0][0]
    own[1] = str(int(own[1]) + (1 if int(own[1]) < int(own[0]) else -1))


def fewer_flips(content: Content) -> None:
    """Weights of pairs that agree with each other, as if decisions depended less on the group."""
    for segment in content["evidence"]["segments"]:
        segment["only"] = [["0" for _ in own] for own in segment["only"]]


def fewer_flips_one_way(content: Content) -> None:
    """Weights of pairs that contradict those of their groups."""
    only = content["evidence"]["segments"][0]["only"]
    slot = next(slot for slot, weight in enumerate(only[0]) if int(weight))
    for own in only:
        own[slot] = "0"


def flips_of_some_segments(content: Content) -> None:
    content["evidence"]["segments"][1]["only"] = []


def flips_of_all_segments_but_the_first(content: Content) -> None:
    content["evidence"]["segments"][0]["only"] = []


def more_inputs(content: Content) -> None:
    content["evidence"]["segments"][1]["evaluations"] += 1


def other_labels(content: Content) -> None:
    content["evidence"]["segments"][1]["labels"] = [0]


def fewer_points(content: Content) -> None:
    content["evidence"]["segments"].pop()


def exchanged_segments(content: Content) -> None:
    segments = content["evidence"]["segments"]
    segments[0], segments[-1] = segments[-1], segments[0]


def repeated_segment(content: Content) -> None:
    content["evidence"]["segments"].append(content["evidence"]["segments"][-1].copy())


def repeated_in_place_of_another(content: Content) -> None:
    segments = content["evidence"]["segments"]
    segments[1] = segments[0].copy()


def another_order(content: Content) -> None:
    content["evidence"]["order"].append(content["evidence"]["order"][0])


def a_summed_feature(content: Content) -> None:
    content["evidence"]["summed"] = ["hours"]


def more_than_all(content: Content) -> None:
    own = content["evidence"]["segments"][0]["weights"][0][0]
    own[0] = str(int(own[0]) + 10**6)


FORGERIES: dict[str, tuple[Callable[[Content], None], set[str]]] = {
    "a weight": (moved_weight, {"re-run"}),
    "decisions that change with the group": (fewer_flips, {"re-run", "intervals"}),
    "decisions that change one way round": (fewer_flips_one_way, {"re-run", "weights"}),
    "pairs in some segments only": (flips_of_some_segments, {"layout"}),
    "pairs in all segments but the first": (flips_of_all_segments_but_the_first, {"layout"}),
    "the number of inputs": (more_inputs, {"re-run"}),
    "the labels": (other_labels, {"re-run"}),
    "points that are left out": (fewer_points, {"verdict", "intervals"}),
    "segments in another order": (exchanged_segments, {"re-run"}),
    "a segment twice": (repeated_segment, {"layout"}),
    "a segment in place of another": (repeated_in_place_of_another, {"re-run"}),
    "a feature twice": (another_order, {"layout"}),
    "a feature that the network does not ignore": (a_summed_feature, {"layout"}),
    "more weight than there is": (more_than_all, {"weights"}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_rejected_even_with_a_new_chain_and_digest(name: str, folder: Path, tmp_path: Path) -> None:
    change, found = FORGERIES[name]
    content = certificate(folder)
    change(content)
    result = rechecked(rechained(content), folder, tmp_path / "c.json")
    assert result.conclusion == "REJECTED"
    assert found <= failing(result)


def test_a_change_without_a_new_chain_breaks_the_chain(folder: Path, tmp_path: Path) -> None:
    content = certificate(folder)
    moved_weight(content)
    assert "chain" in failing(rechecked(content, folder, tmp_path / "c.json"))


def test_another_verdict_than_the_weights_give_is_rejected(folder: Path, tmp_path: Path) -> None:
    content = certificate(folder)
    other = "FAIR" if content["claims"]["verdict"] == "UNFAIR" else "UNFAIR"
    content["claims"] |= {"verdict": other, "decision": other}
    assert "verdict" in failing(rechecked(content, folder, tmp_path / "c.json"))


def test_a_sample_of_segments_is_consistent_with_its_escape_probability(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several segments is run again: a forged one escapes as often as it is not among them."""
    monkeypatch.setattr("fairchain.rechecking.rerun.LEAST_CHUNKS", 1)
    monkeypatch.setattr("fairchain.rechecking.rerun.PROBE_SECONDS", 0.0)
    content = certificate(folder)
    chunks = len(content["evidence"]["segments"])
    honest = rechecked(content, folder, tmp_path / "c.json", seconds=0.0, seed=1)
    assert honest.conclusion == "CONSISTENT"
    assert honest.sample is not None
    assert (honest.sample.chunks, honest.sample.sampled) == (chunks, 1)
    assert honest.sample.one_escapes == pytest.approx(1 - 1 / chunks)
    assert "one forged chunk escapes" in honest.remarks[0]
    assert rechecked(content, folder, tmp_path / "c.json", seconds=0.0, full=True).conclusion == "CONFIRMED"


def test_a_fresh_run_has_nothing_to_draw(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=says(NOTHING_DRAWN)):
        rechecked(certificate(folder), folder, tmp_path / "c.json", fresh=True)


def test_a_sampled_run_cannot_be_passed_off_as_an_enumeration(folder: Path, tmp_path: Path) -> None:
    content = make_certificate(verify(None, parse_spec(audit(folder, "uniform", "difference")), workers=1))
    content["claims"]["engine"] = "enumeration"
    with pytest.raises(CertificateError, match=says(NOT_FAIRCHAIN_CERTIFICATE)):
        rechecked(content, folder, tmp_path / "c.json")


def test_a_weight_that_is_no_whole_number_is_refused(folder: Path, tmp_path: Path) -> None:
    for wrong in ("-1", "1.5", "01", "", "9" * 6000):
        content = certificate(folder)
        content["evidence"]["segments"][0]["weights"][0][0][0] = wrong
        with pytest.raises(CertificateError, match=says(NOT_FAIRCHAIN_CERTIFICATE)):
            rechecked(content, folder, tmp_path / "c.json")


def test_the_checkers_own_spec_may_name_any_engine(folder: Path, tmp_path: Path) -> None:
    own = parse_spec(audit(folder, "uniform", "difference", engine="sampling", seed=None))
    found = rechecked(certificate(folder), folder, tmp_path / "c.json", spec=own)
    assert found.conclusion == "CONFIRMED"
