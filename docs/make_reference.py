"""Writes docs/reference.md: every key of a spec from its own JSON Schema, every field of the output and certificates.

`python docs/make_reference.py` writes the page; a test checks that it is up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairchain.spec import json_schema

PAGE = Path(__file__).parent / "reference.md"
Plain = dict[str, Any]

# The parts of a spec in the usual order: heading, and the structs that are allowed there.
PARTS = {
    "`[model]`": ["ModelSpec"],
    "`[[feature]]`": ["IntegerFeature", "RealFeature", "CategoryFeature", "TextFeature"],
    "`scale` of a number": ["Scale"],
    "`groups` of a feature, in long form": ["Members"],
    "`[population]`": ["Uniform", "Marginals", "Table", "BayesNetwork", "Texts", "UserFunction"],
    "`[[population.nodes]]`": ["Node"],
    "`[property]`": ["Difference", "Ratio", "Individual", "ProbabilityFormula"],
    "`[guarantee]`": ["Guarantee"],
    "`[guarantee.budget]`": ["Budget"],
    "`[about]`": ["About"],
}

VERDICT = {
    "verdict": "the outcome for a gate: `FAIR`, `UNFAIR`, `UNDECIDED` or `CONSTANT`",
    "decision": "the verdict without the check for a constant model: `FAIR`, `UNFAIR` or `UNDECIDED`",
    "constant": "the decision of every tested input, if all are the same; else null",
    "engine": "how the answer was found: `sampling`, `counting`, `enumeration` or `bounds` ([exact answers](exact.md))",
    "kind": "kind of the property: `difference`, `ratio` or `individual`",
    "inputs": "kind of the inputs: `individuals` or `texts`",
    "gap": "`estimate`, `low`, `high`: the largest difference, the smallest ratio, or the share of `inputs` whose "
    "decision changes; `more`, `less`, `outcome`: the widest pair seen",
    "threshold": "threshold of the property",
    "delta": "largest probability of a wrong verdict; 0 if the verdict is certain, because all inputs were "
    "counted, enumerated or bounded",
    "epsilon": "half width of intervals in estimate mode, or null",
    "property": "the question as a formula",
    "groups": "for each group and outcome `name`, `outcome`, `probability`, `low`, `high`, `evaluations`",
    "left_out": "groups below `min_size`: `name`, `size`",
    "violators": "pairs beyond the threshold, with simultaneous error probability delta: `more`, `less`, `outcome`",
    "witnesses": "counterfactual pairs, inputs whose decision changes with the group: `groups`, `labels`, `input`",
    "free_regions": "from bounds, the most probable boxes of inputs for which all groups get the same label: `label`, "
    "`probability`, `features` (the ends of a number, the values of a category)",
    "rounds": "number of rounds drawn",
    "rows": "number of rows of a table; else null",
    "evaluations": "number of evaluations of the network",
    "seconds": "wall time",
    "stopped": "why the run ended: `decided` (FAIR or UNFAIR), `epsilon` (every interval has half width epsilon), "
    "`rounds`, `seconds`, `rows`, `interrupted` or `weights` (probabilities of inputs are not known well enough)",
    "forecast": "if undecided: the estimated number of further rounds that would suffice, or how many times as many "
    "rows; else null",
    "seed": "seed of the random numbers; null for a table and an enumeration",
    "seed_origin": "`derived` from network, spec and data, or `chosen`; null for a table and an enumeration",
    "rule": "`betting`, `paper`, `exact` or `fixed sample`",
    "sound": "whether the guarantee holds; false only for `paper`",
    "model_sha256": "SHA-256 of the network; empty for a function or recorded decisions",
    "table_sha256": "SHA-256 of the rows or texts, or null",
    "population": "description of the population",
    "statement": "the guarantee in a sentence",
    "scope": "what the guarantee covers, and what it does not",
    "notes": "remarks, for example how a model was converted, or that it is constant",
    "assumptions": "what was assumed about model and data without being stated",
    "unseen": "rows of a table that were not evaluated, because the run was stopped or its budget was used up",
    "tipping": "how many times as frequent or as rare inputs may become before the verdict could change: "
    "`each_group` separately, `all_groups_alike`; null without a verdict, and with a `shift`",
    "shift": "the `factor` of the populations that the verdict is about, and `of` what changes (`each_group`, "
    "`all_groups_alike`); null for the assumed population alone",
    "decision_rounds": "number of rounds up to the verdict; later ones only make intervals narrower",
    "decision_evaluations": "number of evaluations up to the verdict",
}

CERTIFICATE = {
    "format": "`fairchain-certificate`",
    "version": "version of the format",
    "software": "versions of the software that wrote it",
    "spec": "the complete spec; paths are reduced to file names",
    "claims": "the output of `verify --json`, without `seconds`, `witnesses`, `free_regions`, `forecast`, `notes`, "
    "`assumptions` and `unseen`",
    "evidence": "every count: for drawn inputs `stream`, `seed`, `coupled`, `outcomes`, `look` and `batches`; for rows "
    "`rows`, `outcomes`, `trials`, `successes`, `labels` and, of texts that are shown as every group, `only` (texts "
    "that get an outcome as one group and not as another). `look`: if the batches have one label, the `rounds` that "
    "were drawn to find another, not counted, and all `labels` seen; else null. For an enumeration `points`, `order` "
    "and `sizes` (the features whose values number the points, the slowest first), `summed` (features that the network "
    "ignores), `outcomes` and `segments`, with `only` where points are shown as every group",
    "digest": "SHA-256 of all fields above, as canonical JSON: detects accidental changes; `recheck` detects forgery",
    "times": "date and duration: the only part that differs between two equal runs",
    "notes": "the assumptions and remarks of the verdict; `recheck` shows them but does not check them",
}

BATCH = {
    "chunk": "number of the batch's first chunk of random numbers",
    "chunk_rounds": "number of rounds in a chunk",
    "rounds": "number of rounds in the batch",
    "groups": "the evaluated groups",
    "leader": 'the pair and outcome of the bet against "every gap is at most the threshold", or null',
    "phase": "in estimate mode, the number of the try",
    "labels": "indices of all labels that the network gave in the batch, counted or not",
    "together": "joint successes: for each outcome and pair of groups, the rounds in which both have the outcome; the "
    "upper triangle, row by row",
    "planned": "the planned rounds of a batch that was cut short; absent otherwise",
}

SEGMENT = {
    "points": "number of points, which follow those of the segment before",
    "evaluations": "number of evaluated inputs whose weight is not 0",
    "inputs": "the same for each counted part of the population",
    "labels": "indices of all labels that these inputs got",
    "weights": "whole numbers as texts: for each part the weight of its inputs, then of those with each outcome; "
    "twice, as lower and upper bounds, if weights are not rational",
    "chain": "SHA-256 of the fields above and of the chain before; the first begins with network, data and question",
}

COMPARISON = {
    "first": "fields of the first certificate: `verdict`, `constant`, `kind`, `gap`, `threshold`, `delta`, `sound` and "
    "`model_sha256`",
    "second": "the same fields of the second",
    "comparable": "whether both gaps have the same definition and population, and both rules are sound",
    "differences": "differences between the two questions",
    "sentence": "the statement about the two gaps",
    "delta": "largest probability that the statement is wrong: the sum of both deltas; null without a statement",
    "promise": "the same as a sentence",
    "groups": "for each group and outcome `name`, `outcome`, `first`, `second` and `moved`, the change that the "
    "intervals show: `up`, `down`, `same`, or empty if they show none",
}

AUDIT = {
    "verdict": "`FAIR`, `UNFAIR`, `UNDECIDED` or `CONSTANT`, for the original network",
    "constant": "the decision of every tested input, if all are the same; else null",
    "gap": "`estimate`, `low`, `high`, as for `verify`",
    "threshold": "threshold of the property",
    "delta": "largest probability of a wrong verdict",
    "sound": "whether the guarantee holds",
    "questions": "if there are several questions, the verdict for each",
    "statement": "the guarantee in a sentence",
    "notes": "remarks, as for `verify`",
    "repaired": "whether a repaired network was accepted",
    "after": "the `gap` of the repaired network, or null",
    "left_out": "stages that were not possible (`explanation`, `chain`, `repair`), with the reasons",
    "folder": "the output folder",
    "report": "the HTML report",
    "files": "names of the files in the folder",
    "recheck": "commands that recheck the certificates",
}

EXIT_CODES = {
    0: "fair; for `recheck` CONFIRMED; for other commands: success",
    1: "unfair; for `recheck` REJECTED; for `repair` no candidate was accepted; for `query` false; for "
    "`audit` the original network is unfair, repaired or not",
    2: "bad usage or input, an exception in your code, a network that crashes the runtime, or insufficient memory: one "
    "message with the file, the key and the remedy; or a result that could not be written, which is still printed (on "
    "standard error if standard output fails)",
    3: "undecided, or a constant model that is not allowed; for `recheck` CONSISTENT: an assumption remains, "
    "because the seed was chosen or only a sample was run again; for `query` the bounds allow both answers",
    101: "a bug in fairchain; `FAIRCHAIN_TRACEBACK=1` prints the traceback",
    130: "interrupted without a result; `audit` keeps finished stages",
    141: "the reader of the output closed the pipe",
    143: "`monitor` was terminated, and the state is written",
}


def render() -> str:
    """Return the whole page."""
    definitions = json_schema()["$defs"]
    parts = [
        "# Reference",
        "Written by `python docs/make_reference.py` from the program itself; a test checks that it is up to date. "
        "[The spec file](spec.md) explains the keys, and the [glossary](glossary.md) the terms.",
        "[Spec](#spec) · [JSON output](#json-output) · [Certificates](#certificates) · [Comparisons](#comparisons) · "
        "[Audits](#audits) · [Exit codes](#exit-codes)",
        "## Spec",
        "A key with a star must be given.",
    ]
    for heading, names in PARTS.items():
        parts.append(f"### {heading}")
        parts += [_struct(definitions[name]) for name in names]
    parts += [
        "## JSON output",
        '`fairchain verify --json` prints one object; an error is `{"error": ..., "exit_code": 2}`.',
        _table("field", VERDICT),
        "## Certificates",
        "A certificate is a JSON file of at most 200 MB. "
        "[What it proves](mathematics-intervals.md#what-the-certificate-proves), and [against whom](trust.md).",
        _table("field", CERTIFICATE),
        "Each of the `batches` has these fields:",
        _table("field", BATCH),
        "Each of the `segments` of an enumeration has these fields:",
        _table("field", SEGMENT),
        "## Comparisons",
        "`fairchain compare A.json B.json --json` prints one object. Certificates with different networks, thresholds, "
        "deltas or seeds are comparable; different questions, populations or tables are not.",
        _table("field", COMPARISON),
        "## Audits",
        "`fairchain audit SPEC -o FOLDER --json` prints one object; [audits and their report](audit.md) "
        "describes the files.",
        _table("field", AUDIT),
        "## Exit codes",
        "The exit codes of all commands:",
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
