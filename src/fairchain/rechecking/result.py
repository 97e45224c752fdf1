"""Result of a recheck: every claim of a certificate, and the assumptions that remain."""

from __future__ import annotations

from typing import Any, Literal

from fairchain.rechecking.checker_files import UsedFile
from fairchain.rechecking.contents import Claim
from fairchain.rechecking.fresh import Fresh
from fairchain.rechecking.rerun import Sample
from fairchain.records import Record

Conclusion = Literal["CONFIRMED", "CONSISTENT", "REJECTED"]
RANDOM_REMARK = (
    "The model is random, so its counts cannot be repeated exactly. The question was repeated with fresh draws, "
    "which gave no verdict, or a single label in one of the two runs; --seconds allows more draws."
)
NO_HASH_REMARK = (
    "The model has no hash, so the seed follows from spec and data alone, and a model could have been built to pass "
    "with this seed; --fresh repeats the run with a seed of your own."
)
CUT_REMARK = (
    "The last batch was cut short, and in this version of certificates a cut batch has other inputs than a longer one, "
    "so the budget could have been chosen to pass; --fresh repeats the run with a seed of your own."
)


class Recheck(Record, frozen=True, kw_only=True):
    """The result of `recheck`: all claims of a certificate, and the way in which they were checked.

    - `claims` are all claims of the certificate, and `files` are the files that were opened.
    - `fraction` is the share of the evaluations that were repeated.
    - `seed_origin` is "derived", "chosen", or "spec". With "spec", the model has no hash, and the seed is derived from
      the spec and the data only. If no inputs were drawn, `seed_origin` is None.
    - `sample` contains the probabilities that a forgery escapes detection, if only a sample of the chunks or segments
      was repeated.
    - `fresh` is the checker's own run. It exists if the run was requested, or if the model is not deterministic.
    - `cut` is True if the certificate has an older format and a budget shortened its last batch.
    - `constant` is the label that the model always gives, if the certificate claims that the model is constant.
    - `members` contains a result for each question, if the certificate is about several questions.
    """

    verdict: str
    constant: str | None = None
    evaluations: int = 0
    fraction: float = 0.0
    seed_origin: str | None = None
    sample: Sample | None = None
    fresh: Fresh | None = None
    random: bool = False
    cut: bool = False
    files: tuple[UsedFile, ...] = ()
    claims: tuple[Claim, ...] = ()
    members: tuple[Recheck, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims) and all(member.holds for member in self.members)

    @property
    def conclusion(self) -> Conclusion:
        """CONFIRMED if no assumption remains, REJECTED if a claim fails, otherwise CONSISTENT.

        No assumption remains after a full re-run of inputs that the issuer could not choose, or after the checker's
        own run with the same verdict.
        """
        if not self.holds:
            return "REJECTED"
        if self.members:
            confirmed = all(member.conclusion == "CONFIRMED" for member in self.members)
            return "CONFIRMED" if confirmed else "CONSISTENT"
        independent = self.fresh is not None and self.fresh.agrees is True
        chosen = self.seed_origin in ("chosen", "spec") or self.cut
        whole = self.sample is None and not chosen and not self.random
        return "CONFIRMED" if independent or whole else "CONSISTENT"

    @property
    def remarks(self) -> tuple[str, ...]:
        """The assumptions that remain if the conclusion is CONSISTENT, one sentence each."""
        if self.conclusion != "CONSISTENT":
            return ()
        if self.members:
            return tuple(dict.fromkeys(remark for member in self.members for remark in member.remarks))
        remarks = [RANDOM_REMARK] if self.random else []
        if self.seed_origin == "chosen":
            remarks.append(
                "The seed was chosen: the issuer could have built the network for this seed, or searched for a "
                "favourable seed; --fresh repeats the run with a seed of your own."
            )
        if self.seed_origin == "spec" and not self.random:
            remarks.append(NO_HASH_REMARK)
        if self.cut:
            remarks.append(CUT_REMARK)
        if self.sample is not None:
            sample, rests_on = self.sample, ""
            if sample.needed is not None and sample.needed_escape is not None:
                rests_on = (
                    f"; the verdict depends on at least {sample.needed:,} chunks, and if all of them are forged, "
                    f"this escapes with probability {sample.needed_escape:.2g}"
                )
            remarks.append(
                f"{sample.sampled:,} of {sample.chunks:,} chunks were run again: one forged chunk escapes with "
                f"probability {sample.one_escapes:.2g}{rests_on}; --full runs everything."
            )
        return tuple(remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        first = {"conclusion": self.conclusion, "holds": self.holds}
        return {**first, **super().to_dict(), "remarks": list(self.remarks)}
