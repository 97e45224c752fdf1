"""Writes docs/reference.md: every key of a spec from its own JSON Schema, every field of the output and certificates.

`python docs/make_reference.py` writes the page; a test sees to it that it is up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairchain.spec import json_schema

PAGE = Path(__file__).parent / "reference.md"
Plain = dict[str, Any]

# The parts of a spec in the order in which people write them: heading, and the structs that may stand there.
PARTS = {
    "`[model]`": ["ModelSpec"],
    "`[[feature]]`": ["IntegerFeature", "RealFeature", "CategoryFeature", "TextFeature"],
    "`scale` of a number": ["Scale"],
    "`groups` of a feature, in long form": ["Members"],
    "`[population]`": ["Uniform", "Marginals", "Table", "BayesNetwork", "Texts", "Callable"],
    "`[[population.nodes]]`": ["Node"],
    "`[property]`": ["Difference", "Ratio", "Individual"],
    "`[guarantee]`": ["Guarantee"],
    "`[guarantee.budget]`": ["Budget"],
}

VERDICT = {
    "verdict": "what a gate acts on: `FAIR`, `UNFAIR`, `UNDECIDED` or `CONSTANT`",
    "decision": "the answer to the question alone: `FAIR`, `UNFAIR` or `UNDECIDED`",
    "constant": "the decision that every input got that was tried, if all got the same; else null",
    "kind": "of the property: `difference`, `ratio` or `individual`",
    "inputs": "what the network is shown: `people` or `texts`",
    "gap": "`estimate`, `low`, `high`: the largest difference, the smallest ratio, or the share of `inputs` whose "
    "decision changes; `more`, `less`, `outcome`: the widest pair seen",
    "threshold": "of the property",
    "delta": "probability of a wrong verdict, at most; 0 if everybody was counted",
    "epsilon": "half width in estimate mode, or null",
    "property": "the question as a formula",
    "groups": "for each group and outcome `name`, `outcome`, `probability`, `low`, `high`, `evaluations`",
    "left_out": "groups below `min_size`: `name`, `size`",
    "violators": "pairs known to be beyond the threshold, all of them together at delta: `more`, `less`, `outcome`",
    "witnesses": "single people who are decided otherwise as another group: `groups`, `labels`, `input`",
    "rounds": "how many rounds were drawn",
    "rows": "of a table, how many; else null",
    "evaluations": "how often the network was asked",
    "seconds": "of wall time",
    "stopped": "why it ended: `decided` (FAIR or UNFAIR), `epsilon` (everything is within epsilon), `rounds`, "
    "`seconds`, `rows` or `interrupted`",
    "forecast": "if undecided: about how many more rounds, or how many times as many rows, would do; else null",
    "seed": "of the random numbers; null for a table",
    "seed_origin": "`derived` from network, spec and data, or `chosen`; null for a table",
    "rule": "`betting`, `paper`, `exact` or `fixed sample`",
    "sound": "whether the guarantee holds; false for `paper` only",
    "model_sha256": "of the network's file; empty for a function or recorded decisions",
    "table_sha256": "of the rows or texts that were used, or null",
    "population": "whose verdict it is, in words",
    "statement": "the guarantee in a sentence",
    "scope": "what the sentence is about, and what not",
    "notes": "remarks: how a model was converted, that it is constant",
}

CERTIFICATE = {
    "format": "`fairchain-certificate`",
    "version": "of the format",
    "software": "versions of what made it",
    "spec": "the whole question; of paths only the file's name",
    "claims": "what `verify --json` prints, without `seconds`, `witnesses`, `forecast` and `notes`",
    "evidence": "every count: for drawn people `stream`, `seed`, `coupled`, `outcomes`, `look` and `batches`; for rows "
    "`rows`, `outcomes`, `asked`, `got` and `labels`. `look`: if the batches have one label, the `rounds` that were "
    "drawn in search of another, not counted, and all `labels` seen; else null",
    "digest": "SHA-256 of everything above, as canonical JSON: against accidents; against forgery there is `recheck`",
    "times": "when it was made, and how long that took: the only part that two runs do not share",
}

BATCH = {
    "chunk": "number of the batch's first chunk of random words",
    "chunk_rounds": "rounds in a chunk",
    "rounds": "rounds in the batch",
    "groups": "which groups were asked",
    "leader": "the pair and outcome whose coming payoffs are bet on, or null",
    "phase": "in estimate mode, which try it belongs to",
    "labels": "numbers of all labels that the network gave in the batch, counted or not",
    "together": "for each outcome, how often each two of these groups got it together: the upper triangle, row by row",
}

COMPARISON = {
    "first": "of the first certificate: `verdict`, `constant`, `kind`, `gap`, `threshold`, `delta`, `sound` and "
    "`model_sha256`",
    "second": "the same of the second",
    "comparable": "whether both gaps are measured alike, for the same people, by rules that are sound",
    "differences": "in what they are not about the same thing",
    "sentence": "what can be said about the two gaps",
    "delta": "with which probability that is wrong, at most: the sum of both deltas; null if nothing is said",
    "promise": "the same in words",
    "groups": "for each group and outcome `name`, `outcome`, `first`, `second` and whether the intervals say that it "
    "`moved`: `up`, `down`, `same`, or empty if they do not say",
}

AUDIT = {
    "verdict": "`FAIR`, `UNFAIR`, `UNDECIDED` or `CONSTANT`, of the network as it is",
    "constant": "the decision that every input got that was tried, if all got the same; else null",
    "gap": "`estimate`, `low`, `high`, as for `verify`",
    "threshold": "of the property",
    "delta": "probability of a wrong verdict, at most",
    "sound": "whether the guarantee holds",
    "statement": "the guarantee in a sentence",
    "notes": "remarks, as for `verify`",
    "repaired": "whether a repaired network was accepted",
    "after": "its `gap`, or null",
    "left_out": "stages that were not possible, by what is missing (`explanation`, `chain`, `repair`), and why",
    "folder": "where everything is",
    "report": "the page",
    "files": "names of the files in the folder",
    "recheck": "commands with which the certificates can be checked",
}

EXIT_CODES = {
    0: "fair; of `recheck` CONFIRMED; of others: done",
    1: "unfair; of `recheck` REJECTED; of `repair` nothing could be repaired; of `query` false; of "
    "`audit` about the network as it is, repaired or not",
    2: "bad usage or input, code of yours that failed, a network that crashes the runtime, or memory that runs out: "
    "one message with the file, the key and the remedy; or a result that could not be written, which is shown all the "
    "same (on standard error if standard output fails)",
    3: "undecided, or a constant model that is not allowed; of `recheck` CONSISTENT: a chosen seed, or a sample, "
    "leaves something to believe; of `query` the bounds allow both answers",
    101: "a bug of ours; `FAIRCHAIN_TRACEBACK=1` shows where",
    130: "interrupted before anything was known; of `audit` what is finished is kept",
    141: "the reader of our output went away",
    143: "of `monitor`: terminated, and the state is written",
}


def render() -> str:
    """The whole page."""
    definitions = json_schema()["$defs"]
    parts = [
        "# Reference",
        "Written by `python docs/make_reference.py` from the program itself; a test sees to it that it is up to date. "
        "What the keys mean for the answer is told in [the spec file](spec.md).",
        "[Spec](#spec) · [JSON output](#json-output) · [Certificates](#certificates) · [Comparisons](#comparisons) · "
        "[Audits](#audits) · [Exit codes](#exit-codes)",
        "# Spec",
        "A key with a star must be given.",
    ]
    for heading, names in PARTS.items():
        parts.append(f"## {heading}")
        parts += [_struct(definitions[name]) for name in names]
    parts += [
        "# JSON output",
        '`fairchain verify --json` prints one object; an error is `{"error": ..., "exit_code": 2}`.',
        _table("field", VERDICT),
        "# Certificates",
        "JSON, at most 200 MB. `fairchain recheck` tells [what it proves](mathematics.md#what-the-certificate-proves), "
        "and [against whom](trust.md).",
        _table("field", CERTIFICATE),
        "Each of the `batches`:",
        _table("field", BATCH),
        "# Comparisons",
        "`fairchain compare A.json B.json --json` prints one object. Another network, threshold, delta or seed is no "
        "reason not to compare; another question, other people or another table is.",
        _table("field", COMPARISON),
        "# Audits",
        "`fairchain audit SPEC -o FOLDER --json` prints one object; what each file is stands in "
        "[audits and their report](audit.md).",
        _table("field", AUDIT),
        "# Exit codes",
        "Of every command:",
        _table("code", EXIT_CODES),
    ]
    return "\n\n".join(parts) + "\n"


def _struct(struct: Plain) -> str:
    kind = struct["properties"].get("kind", {}).get("enum", [None])[0]
    title = f'**`kind = "{kind}"`**: ' if kind else ""
    required = set(struct.get("required", ()))
    rows = [
        [f"`{key}`" + (" *" if key in required else ""), _type(value), _default(value), value.get("description", "")]
        for key, value in struct["properties"].items()
        if key != "kind"
    ]
    head = title + " ".join(struct["description"].split("\n\n")[0].split())
    return f"{head}\n\n{_rows(['key', 'type', 'default', ''], rows)}" if rows else f"{head} No other keys."


def _type(value: Plain) -> str:
    """A type in a few words, with its limits."""
    if "enum" in value:
        return " or ".join(f"`{json.dumps(each)}`" for each in value["enum"] if each is not None)
    if "$ref" in value:
        return "table"
    if "anyOf" in value:
        every = [_type(each) for each in value["anyOf"] if each != {"type": "null"}]
        return " or ".join(dict.fromkeys(each for each in every if each != "whole number" or "number" not in every))
    if value["type"] == "array":
        return f"list of {_type(value['items'])}" if value.get("items") else "list"
    names = {"string": "text", "object": "table", "integer": "whole number", "boolean": "true or false"}
    words = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}
    limits = [f"{words[key]} {value[key]:g}" for key in words if key in value]
    return ", ".join([names.get(value["type"], value["type"]), *limits])


def _default(value: Plain) -> str:
    if value.get("default") in (None, {}, []) or "$ref" in value:
        return ""
    return f"`{json.dumps(value['default'])}`"


def _table(head: str, fields: dict[Any, str]) -> str:
    return _rows([head, ""], [[f"`{key}`", text] for key, text in fields.items()])


def _rows(headers: list[str], rows: list[list[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
