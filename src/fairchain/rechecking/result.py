"""Result of a recheck: every claim of a certificate, and what a certificate that is consistent leaves open."""

from __future__ import annotations

from typing import Any, Literal

from fairchain.rechecking.contents import Claim
from fairchain.rechecking.files import UsedFile
from fairchain.rechecking.fresh import Fresh
from fairchain.rechecking.rerun import Sample
from fairchain.records import Record

Conclusion = Literal["CONFIRMED", "CONSISTENT", "REJECTED"]
RANDOM_REMARK = (
    "The model is random by itself, so that its counts cannot be run again bit by bit: the question was repeated with "
    "fresh draws, which gave no verdict, or a single label on one side only; --seconds allows more of them."
)
NO_HASH_REMARK = (
    "The model has no hash, so the seed follows from spec and data alone, and a model could have been built to pass "
    "with it; --fresh repeats the run with a seed of your own."
)


class Recheck(Record, frozen=True, kw_only=True):
    """The result of `recheck`: all claims of a certificate, and how they were checked.

    `fraction` is the share of the evaluations that were run again, and `files` are the files that were opened.
    `seed_origin` is "derived", "chosen", or "spec" if the model has no hash and the seed is derived from spec and data
    only; it is None for rows, which are not drawn. If only a sample of chunks was run again, `sample` has the
    probabilities that a forgery escapes detection. `fresh` is the checker's own run, if one was requested, or if the
    model is `random` and its answers cannot be repeated exactly. If the certificate is about a constant model,
    `constant` is its claimed decision. For a certificate of several questions, `members` has a result for each of them.
    """

    verdict: str
    constant: str | None = None
    evaluations: int = 0
    fraction: float = 0.0
    seed_origin: str | None = None
    sample: Sample | None = None
    fresh: Fresh | None = None
    random: bool = False
    files: tuple[UsedFile, ...] = ()
    claims: tuple[Claim, ...] = ()
    members: tuple[Recheck, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims) and all(member.holds for member in self.members)

    @property
    def conclusion(self) -> Conclusion:
        """CONFIRMED if no assumption remains, REJECTED if a claim fails, else CONSISTENT.

        Nothing is left to believe after a whole re-run with a seed that the issuer could not choose, or after a run of
        the checker's own with the same verdict.
        """
        if not self.holds:
            return "REJECTED"
        if self.members:
            confirmed = all(member.conclusion == "CONFIRMED" for member in self.members)
            return "CONFIRMED" if confirmed else "CONSISTENT"
        independent = self.fresh is not None and self.fresh.agrees is True
        whole = self.sample is None and self.seed_origin not in ("chosen", "spec") and not self.random
        return "CONFIRMED" if independent or whole else "CONSISTENT"

    @property
    def remarks(self) -> tuple[str, ...]:
        """The assumptions that remain if a certificate is only CONSISTENT, one sentence each."""
        if self.conclusion != "CONSISTENT":
            return ()
        if self.members:
            return tuple(dict.fromkeys(remark for member in self.members for remark in member.remarks))
        remarks = [RANDOM_REMARK] if self.random else []
        if self.seed_origin == "chosen":
            remarks.append(
                "The seed was chosen, so the network could have been built, or the seed searched, to pass with it; "
                "--fresh repeats the run with a seed of your own."
            )
        if self.seed_origin == "spec" and not self.random:
            remarks.append(NO_HASH_REMARK)
        if self.sample is not None:
            sample, rests_on = self.sample, ""
            if sample.needed is not None and sample.needed_escape is not None:
                rests_on = (
                    f"; the verdict rests on at least {sample.needed:,} chunks, and forgeries in so many escape with "
                    f"probability {sample.needed_escape:.2g}"
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
