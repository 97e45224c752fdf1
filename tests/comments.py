"""A cache of data sets with a small corpus in which every group is mentioned, and vectors for its words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairchain import datasets
from fairchain.text.terms import shipped

FILLERS = ["this", "page", "was", "written", "by", "somebody", "who", "knows", "little", "about", "it", "go", "home"]


def fill_cache(cache: Path) -> None:
    """Make the data sets toxicity and glove in this folder, as a user's own files."""
    folder = cache.parent
    terms = sorted({word for name in ("religion", "race") for words in shipped(name).values() for word in words})
    words = [*FILLERS, *terms]
    rng = np.random.default_rng(0)
    np.save(folder / "vectors.npy", rng.normal(0, 0.5, (len(words), 50)).astype(np.float32))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    datasets.get("glove", cache=cache, file=[folder / "vectors.npy", folder / "words.txt"])
    texts = [" ".join(rng.permutation([*FILLERS, term])) for term in terms for _ in range(3)] + [" ".join(FILLERS)]
    rows = [f"{number}\t{text}\ttrain\n" for number, text in enumerate(texts)]
    (folder / "comments.tsv").write_text("rev_id\tcomment\tsplit\n" + "".join(rows))
    votes = [f"{number}\t1\t0\n" for number in range(len(texts))]
    (folder / "votes.tsv").write_text("rev_id\tworker_id\ttoxicity\n" + "".join(votes))
    datasets.get("toxicity", cache=cache, file=[folder / "comments.tsv", folder / "votes.tsv"])
