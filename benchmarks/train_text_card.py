"""The part of the model card that is about the network that reads comments.

benchmarks/NETWORKS.md contains it after a marker comment, so each training program rewrites its own part and keeps the
other.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.train_text_network import CELLS, Recipe

MARK = "<!-- Written by benchmarks/train_text.py from here on; change that program, not this part. -->"


@dataclass(frozen=True)
class Score:
    """What a network says about a split: `caught` of the toxic comments, `precise` of those that it calls toxic."""

    rows: int
    toxic: int
    accuracy: float
    auc: float
    caught: float
    precise: float

    @property
    def majority(self) -> float:
        """The accuracy of always giving the majority label."""
        return max(self.toxic, self.rows - self.toxic) / self.rows


_CARD = """\
## The network that reads comments

`comments.onnx` classifies a comment as `toxic` or `fine`. It has one LSTM layer of {cells} cells and one dense layer.
The LSTM layer reads the 50-dimensional GloVe vectors of the first {length} known words. The dense layer maps the last
hidden state to two logits. The network of [the paper](../docs/mathematics.md#the-papers-rule) has the same size but
other weights. The file of our network does not contain the GloVe vectors. Training and verification use the same
tokeniser and word numbers ([docs/text.md](../docs/text.md)).

The network was trained on the comments of Wikipedia's talk pages, each rated by about ten raters
(`fairchain data get toxicity`). A comment is `toxic` if more than half of its raters said so. The publisher divided the
comments into the splits train, dev and test. Training used Adam for {epochs} epochs, in batches of {batch} comments of
similar length, with a learning rate that rises to {rate} and falls again. Gradients were clipped at norm {clip:g}. The
loss was cross-entropy without weights on the labels. There was one run, with seed {seed}. The number of epochs, the
learning rate and the number of words were chosen on the dev split, in a few runs of an earlier version of the training
program. The test split was used only for the table below. The seed and the settings do not depend on any verdict.

| split | comments | toxic | accuracy | area under the ROC curve | recall | precision |
| --- | --- | --- | --- | --- | --- | --- |
{scores}

The numbers are measured on the ONNX file. The constant answer `fine` has a test accuracy of {majority:.4f}, so
accuracy alone is not informative. The file has {size:,} bytes, sha256 `{sha256}`.

**Intended use:** The network is a test object. It misses about {missed:.0%} of the toxic comments, and reads at most
{length} words. It learned from comments in which some groups are insulted more often than others. So verdicts about it
can be UNFAIR, which makes it an interesting test object. **Not intended:** Do not use the network for moderation. A
verdict is about this network and the texts of the corpus, not about Wikipedia's editors or other toxicity models.

The data have these licences:

- Wikipedia Talk Labels: Toxicity (E. Wulczyn, N. Thain, L. Dixon, 2017): CC BY-SA 3.0 for the text of the comments, and
  CC0 1.0 for the annotations
- GloVe 6B, 50 dimensions (J. Pennington, R. Socher, C. Manning, 2014): PDDL 1.0

These data are not part of the package. `fairchain data get toxicity glove` downloads them.

`python -m benchmarks.train_text` trains the network again, with the `torch` extra. On one machine, two runs give the
same bytes. Another processor or version of torch may give other weights.
"""


def card_text(scores: dict[str, Score], recipe: Recipe, seed: int, length: int, size: int, sha256: str) -> str:
    """The part of the page; `scores` by split."""
    held_out = scores["test"]
    return _CARD.format(
        cells=CELLS,
        length=length,
        epochs=recipe.epochs,
        batch=recipe.batch,
        rate=recipe.rate,
        clip=recipe.clip,
        seed=seed,
        scores="\n".join(_row(split, score) for split, score in scores.items()),
        majority=held_out.majority,
        missed=1 - held_out.caught,
        size=size,
        sha256=sha256,
    )


def _row(split: str, score: Score) -> str:
    error = (score.accuracy * (1 - score.accuracy) / score.rows) ** 0.5
    cells = [
        *(split, f"{score.rows:,}", f"{score.toxic / score.rows:.4f}", f"{score.accuracy:.4f} ± {error:.4f}"),
        *(f"{score.auc:.4f}", f"{score.caught:.3f}", f"{score.precise:.3f}"),
    ]
    return f"| {' | '.join(cells)} |"
