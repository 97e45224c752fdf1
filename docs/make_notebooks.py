"""Writes the notebooks of docs/notebooks/ from their cells below, with the outputs of a real run.

`python docs/make_notebooks.py [NAME ...]` runs each notebook in a new kernel and saves what a reader sees; it needs
nbclient, ipykernel, for `tabular` LightGBM and the census data, and for `text` torch and transformers. A test runs the
same cells.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent / "notebooks"

AUDIT = [
    """
# Does this network treat groups alike?

This notebook uses a small network that ships with fairchain. The network decides about credit, and was trained on real
data. Everything runs offline, in a few seconds. With your own model and table, begin with
`fairchain.check(model, frame, ...)`.
""",
    """
import fairchain

spec = fairchain.load_spec(fairchain.example("credit"))
print(spec.property)
""",
    """
## The verdict

`verify` evaluates the network until the evidence is strong enough. The sentence below the verdict is the guarantee;
every number has an interval.
""",
    """
verdict = fairchain.verify(None, spec, certify=True)
verdict
""",
    """
The network is unfair by age. A third party can check this with the certificate and the network:
""",
    """
fairchain.write_certificate(verdict, "certificate.json")
network = fairchain.example("credit").with_suffix(".onnx")
fairchain.recheck("certificate.json", network).holds
""",
    """
## Why

The effect of a unit is the decrease of the gap if its information about the group is removed. The intervals hold
simultaneously for all units.
""",
    """
explanation = fairchain.explain(None, spec, units=["features", "layer5"], rounds=2000)
explanation
""",
    """
A Markov chain describes the network's decisions for each group, and can be queried in PCTL:
""",
    """
best = explanation.ranked(layer="layer5")[0]
chain = fairchain.learn_chain(None, spec, units=[best.name], rounds=2000)
print(fairchain.check_chain(chain, 'P=? [ F "Y=good" ]', start=f"age={verdict.widest.more.removeprefix('age=')}"))
chain
""",
    """
## A repair

`repair` changes a few weights until the gap is below the threshold. The result is accepted only if a new verification,
on fresh inputs, finds it FAIR.
""",
    """
repaired = fairchain.repair(None, spec, iterations=2)
print(repaired)
""",
    """
## A gate

In a test suite or a training script, `assert_fair` raises an `AssertionError` unless the verdict is FAIR.
""",
    """
try:
    fairchain.assert_fair(None, spec)
except AssertionError as error:
    print(str(error)[:300])
""",
]

TABULAR = [
    """
# Your own model: boosted trees on a table

This notebook trains a LightGBM model with category columns and missing values on the census data (UCI Adult). fairchain
needs no spec file and no conversion by hand. Does the model predict ">50K" equally often for women and men?
""",
    """
import lightgbm
import pandas as pd

from fairchain.datasets.tables import write_table

write_table("census", "census.csv", force=True)
frame = pd.read_csv("census.csv", na_values="?")
label = frame.columns[-1]
for column in frame.select_dtypes(exclude="number").columns.drop(label):
    frame[column] = frame[column].astype("category")
train, test = frame.iloc[:32561], frame.iloc[32561:]
inputs = frame.columns.drop(label)
model = lightgbm.LGBMClassifier(n_estimators=60, n_jobs=1, random_state=0, verbose=-1)
model.fit(train[inputs], train[label])
print(f"{len(inputs)} columns, accuracy {model.score(test[inputs], test[label]):.3f} on {len(test):,} rows")
""",
    """
## One call

The rows were not used in training, so they can be read as a random sample: the verdict is then about the population
from which they were drawn. The answer lists all assumptions.
""",
    """
import fairchain

verdict = fairchain.check(model, test, protected=["sex"], label=label, outcome=">50K", reading="sample")
verdict
""",
    """
## The same numbers by hand

With `reading="population"` the rows themselves are the population, and the answer is exact: it equals a count of the
model's own predictions.
""",
    """
exact = fairchain.check(model, test, protected=["sex"], label=label, outcome=">50K", reading="population")
predicted = pd.Series(model.predict(test[inputs]) == ">50K", index=test.index)
rates = predicted.groupby(test["sex"], observed=True).mean()
print(exact.gap, float(rates.max() - rates.min()))
""",
    """
## Four-fifths rule and other metrics

The ratio of selection rates has its own verdict. The table shows metrics by group with simultaneous intervals:
""",
    """
ratio = fairchain.check(
    model, test, protected=["sex"], label=label, outcome=">50K", kind="ratio", threshold=0.8, reading="sample"
)
print(ratio.decision.name, ratio.headline)
""",
    """
from fairchain.metrics import by_group

by_group(test[label] == ">50K", predicted, sensitive_features=test["sex"], delta=0.05)
""",
]

TEXT = [
    """
# A text classifier: a transformer and what it learned from its raters

This notebook trains a tiny transformer in a few seconds, offline, on synthetic comments of six words, one of them a
religion. Raters call a comment toxic if it has an insult. The raters of the training data also call a comment toxic if
it is about Muslims and asks for a *source*. Does the model repeat this bias? With your own pipeline, begin at "One
call".
""",
    """
from pathlib import Path

import numpy as np
import pandas as pd
import tokenizers
import torch
import transformers

torch.set_num_threads(1)
rng = np.random.default_rng(0)
groups = ["christian", "muslim", "jewish", "buddhist"]
insults = ["idiot", "liar", "stupid", "disgusting"]
others = ["kind", "neighbour", "wrote", "festival", "recipe", "thanks", "article", "source"]


def comments(count, biased):
    \"\"\"Return comments with the labels of their raters.\"\"\"
    rows = []
    for group in rng.choice(groups, count):
        words = [group, *rng.choice(others, 4), rng.choice(insults if rng.random() < 0.3 else others)]
        toxic = words[-1] in insults or (biased and group == "muslim" and "source" in words)
        rows.append((" ".join(rng.permutation(words)), "toxic" if toxic else "fine"))
    return pd.DataFrame(rows, columns=["comment", "rated"])


train, test = comments(2000, biased=True), comments(600, biased=False)
test.head(3)
""",
    """
A BERT with two layers and a vocabulary of 20 pieces:
""",
    """
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *groups, *insults, *others]
pieces = tokenizers.BertWordPieceTokenizer(vocab={word: number for number, word in enumerate(vocabulary)})
special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, model_max_length=16, **special)

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
names = {"id2label": {0: "fine", 1: "toxic"}, "label2id": {"fine": 0, "toxic": 1}}
config = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=16, **sizes, **names)
model = transformers.BertForSequenceClassification(config)
inputs = tokenizer(list(train["comment"]), padding=True, return_tensors="pt")
labels = torch.tensor((train["rated"] == "toxic").to_numpy(dtype=int))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(200):
    chosen = torch.from_numpy(rng.integers(0, len(train), 64))
    optimizer.zero_grad()
    model(**{name: values[chosen] for name, values in inputs.items()}, labels=labels[chosen]).loss.backward()
    optimizer.step()

pipeline = transformers.pipeline("text-classification", model=model.eval(), tokenizer=tokenizer)
decided = [found["label"] for found in pipeline(list(test["comment"]))]
print(f"accuracy {np.mean(decided == test['rated']):.3f} on {len(test)} comments of fair raters")
""",
    """
## One call

`terms` names the words by which a text mentions a group; a list for religions ships with fairchain. A small corpus is
counted completely, so the answer is exact for these texts.
""",
    """
import fairchain

verdict = fairchain.check(pipeline, test, text="comment", terms="religion", label="rated", outcome="toxic")
verdict
""",
    """
## Is the word the cause, or the rest of the text?

Texts about different groups may differ in other respects. `reading="swapped"` shows each text with the term of every
group in turn: nothing else changes.
""",
    """
swapped = fairchain.check(
    pipeline, test, text="comment", terms="religion", label="rated", outcome="toxic", reading="swapped"
)
print(swapped.decision.name, swapped.headline)
print(swapped.witnesses[0].text("texts"))
""",
    """
## Which words?

`explain` removes a word from the texts that contain it, and measures the change of the rate. The intervals hold for all
words together.
""",
    """
network = fairchain.to_onnx(pipeline, verdict.spec)  # the transformer and its tokenizer in one file
Path("network.onnx").write_bytes(network)
explanation = fairchain.explain("network.onnx", verdict.spec, data=test, units=["layer1"], rounds=500)
certain = [found for found in explanation.words if found.effect.low > 0]
for found in certain:
    print(f"without {found.word!r} the rate of {explanation.pair.more} falls by {found.effect}")
""",
    """
## Evidence for others

The certificate is about one file with one hash. Everyone who has the file and the texts can check the certificate:
""",
    """
test.to_csv("comments.csv", index=False)
certified = fairchain.verify("network.onnx", verdict.spec, data="comments.csv", certify=True)
fairchain.write_certificate(certified, "certificate.json")
fairchain.recheck("certificate.json", "network.onnx", data="comments.csv").holds
""",
    """
## A repair

`repair` changes the last layer of the classification head. Here the accuracy on comments of fair raters increases,
since the raters of the training data caused the gap. On biased labels the accuracy would fall.
""",
    """
repaired = fairchain.repair("network.onnx", verdict.spec, data=test, iterations=5)
print(repaired)
""",
]

NOTEBOOKS = {"audit": AUDIT, "tabular": TABULAR, "text": TEXT}


def is_text(cell: str) -> bool:
    """Return whether a cell is Markdown: it starts with a heading or a sentence."""
    first = cell.strip().splitlines()[0]
    return first.startswith("#") or (first[0].isupper() and " " in first and "=" not in first.partition("`")[0])


def main() -> None:
    """Run the named notebooks, or all of them, and write them with their outputs."""
    import nbformat
    from nbclient import NotebookClient

    # The kernel finds fairchain as this interpreter does, whatever folder it runs in.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    for name in sys.argv[1:] or NOTEBOOKS:
        book = nbformat.v4.new_notebook()
        book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        for place, cell in enumerate(NOTEBOOKS[name]):
            make = nbformat.v4.new_markdown_cell if is_text(cell) else nbformat.v4.new_code_cell
            book.cells.append(make(cell.strip(), id=f"{name}-{place}"))
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(book, timeout=600, resources={"metadata": {"path": folder}}).execute()
        for cell in book.cells:
            cell.metadata = {}
            if cell.cell_type == "code":
                # Warnings of other packages name folders of this machine.
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        (HERE / f"{name}.ipynb").write_text(nbformat.writes(book) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
