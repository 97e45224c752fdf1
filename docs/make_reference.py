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
    "verdict": "the final verdict: `FAIR`, `UNFAIR`, `UNDECIDED` or `CONSTANT`",
    "decision": "the verdict without the check for a constant model: `FAIR`, `UNFAIR` or `UNDECIDED`",
    "constant": "the decision, if all tested inputs get the same decision; otherwise null",
    "engine": "the algorithm that answered: `sampling`, `counting`, `enumeration` or `bounds` ([exact "
    "answers](exact.md))",
    "kind": "the kind of the property: `difference`, `ratio` or `individual`",
    "inputs": "the kind of the inputs: `individuals` or `texts`",
    "gap": "`estimate`, `low` and `high` of the largest difference, of the smallest ratio, or of the share of inputs "
    "whose decision changes. `more`, `less` and `outcome` name the two groups and the label with the largest observed "
    "difference or the smallest observed ratio. Without a reference group and without a formula, `more` is the group "
    "with the higher rate",
    "threshold": "the threshold of the property",
    "delta": "the largest probability of a wrong verdict; 0 if the verdict does not depend on random draws",
    "epsilon": "in estimate mode, the largest allowed half width of an interval; otherwise null",
    "property": "the question as a formula",
    "groups": "for each group and outcome: `name`, `outcome`, `probability` (the estimated rate), `low` and `high` "
    "(the interval of the rate), and `evaluations` (the number of trials)",
    "left_out": "the groups below `min_size`: `name`, and `size` (the number of rows or texts, or the share)",
    "violators": "the pairs of groups that are shown to be beyond the threshold, each with `more`, `less` and "
    "`outcome` as in `gap`. The probability that the list contains a pair within the threshold is at most delta",
    "witnesses": "counterfactual pairs, each with the two `groups`, the two decisions (`labels`) and the values of "
    "the other features (`input`)",
    "free_regions": "for the engine `bounds`, the most probable [boxes](glossary.md#sampling) in which all groups get "
    "the same label: `label`, `probability`, and `features` (the range of each number, and the values of each "
    "category)",
    "rounds": "the number of drawn rounds",
    "rows": "the number of rows of a table or of counted texts; null for other inputs",
    "evaluations": "the number of evaluations of the model",
    "seconds": "the wall-clock time",
    "stopped": "the reason why the run ended ([list](#reasons-to-stop))",
    "forecast": "for drawn inputs, the estimated number of further rounds until a verdict. For a table, the factor by "
    "which the number of rows must grow for a verdict. Null if `decision` is not `UNDECIDED`, or if nothing can be "
    "forecast",
    "seed": "the seed of the random numbers; null if no inputs were drawn",
    "seed_origin": "`derived` from model, spec and data, or `chosen`; null if no inputs were drawn",
    "rule": "the rule that led to the verdict ([list](#rules))",
    "sound": "whether the guarantee holds; false only for the rule `paper`",
    "model_sha256": "SHA-256 of the model. Empty for recorded decisions, and for models without a hash, such as "
    "services",
    "table_sha256": "SHA-256 of the rows or texts, or null",
    "population": "a description of the population",
    "statement": "the guarantee in a sentence",
    "scope": "the limits of the guarantee, in a sentence",
    "notes": "remarks, for example about the conversion of a model",
    "assumptions": "assumptions about model and data that the user did not state",
    "unseen": "the number of rows of a table that were not evaluated before the user stopped the run or the budget "
    "was spent; otherwise 0",
    "tipping": "the [tipping factors](glossary.md#the-question) `each_group` and `all_groups_alike`. Null if "
    "`decision` is `UNDECIDED`, if the model is constant, if the rule is `paper`, or if there is a `shift`",
    "shift": "the [shift](glossary.md#the-question) that the verdict covers: its `factor`, and `of` (`each_group` or "
    "`all_groups_alike`); null without a shift",
    "decision_rounds": "the number of rounds until the verdict. Later rounds, which make intervals narrower, do not "
    "count",
    "decision_evaluations": "the number of evaluations until the verdict",
}

STOPPED = {
    "decided": "the evidence was sufficient, so `decision` is `FAIR` or `UNFAIR`",
    "epsilon": "in estimate mode, the half width of every interval is at most epsilon",
    "rounds": "the budget of rounds is spent",
    "evaluations": "the budget of evaluations is spent",
    "seconds": "the budget of seconds is spent",
    "rows": "the table has too few rows for a verdict",
    "interrupted": "the user stopped the run",
    "weights": "an enumeration is complete, but the probabilities of the inputs are not known precisely enough",
    "boxes": "branch and bound cannot divide the boxes further",
}

RULES = {
    "betting": "[betting](mathematics.md#betting) on drawn inputs, or [estimate "
    "mode](mathematics-intervals.md#estimate-mode)",
    "paper": "the [rule of the original paper](mathematics.md#the-papers-rule), which is not sound",
    "exact": "a count of all rows of a population, an enumeration, or bounds that do not depend on sampling",
    "fixed sample": "an interval for a sample of rows",
    "any time": "an interval for a sample of rows, if the user stopped the run",
    "random part": "an interval for the rows of a population, if the budget allowed only a random part of the rows",
    "worst case": "bounds for the rows of a population, if the user stopped the run. The bounds cover all possible "
    "decisions about the rows that were not evaluated",
}

CERTIFICATE = {
    "format": "`fairchain-certificate`",
    "version": "the version of the format",
    "software": "the versions of fairchain, Python, NumPy and onnxruntime that wrote the certificate",
    "spec": "the complete spec, with file names instead of paths",
    "claims": "the output of `verify --json`, without `seconds`, `witnesses`, `free_regions`, `forecast`, `notes`, "
    "`assumptions` and `unseen`",
    "evidence": "every count, in one of three formats ([below](#evidence))",
    "digest": "SHA-256 of all fields except `digest` and `times`, as canonical JSON. The digest detects accidental "
    "changes, but not forgery. `recheck` detects both",
    "times": "the date, the duration, and the processes of an [executor](scaling.md#executors). Two runs with the same "
    "model, spec, data, seed and software [normally](ci.md#reproducible-results) differ only in `times`",
    "notes": "the assumptions and remarks of the verdict, which `recheck` neither prints nor checks",
}

DRAWN = {
    "stream": "a text that defines how the random numbers follow from the seed",
    "seed": "the seed",
    "coupled": "whether all groups of a round share random numbers",
    "outcomes": "the indices of the counted labels in the `labels` of the spec. For `individual`, the list is `[1]`, "
    "and changed decisions are counted",
    "look": "null if several labels occur in the counted rounds. Otherwise, fairchain searches for a second label in "
    "further rounds, which are not counted. `rounds` is the number of further rounds, and `labels` contains the "
    "indices of all labels in counted and further rounds",
    "batches": "the counts of every batch",
}

ROWS = {
    "rows": "the number of rows",
    "outcomes": "the indices of the counted labels, as for drawn inputs",
    "trials": "the number of rows in each subgroup",
    "successes": "for each outcome and each subgroup, the number of rows with the outcome. If decisions are random "
    "and the rows are a whole population, the sum of the probabilities of the outcome replaces this number, in units "
    "of 2^-32",
    "labels": "the indices of all labels that occur in the rows, counted or not",
    "only": "for each outcome and each ordered pair (A, B) of compared subgroups, the number of texts with the "
    "outcome if shown as A, but not if shown as B. Absent if texts are not shown as every group, or if there are too "
    "many pairs",
}

ENUMERATION = {
    "points": "the number of all points, which are combinations of values of the features in `order`",
    "order": "the features that define a point. In the numbering of the points, the first feature changes slowest",
    "sizes": "the number of values of each feature in `order`",
    "summed": "the features that the network ignores",
    "outcomes": "the indices of the counted labels, as for drawn inputs",
    "segments": "the segments, which are sequences of points, with their [weights](exact.md#exact-numbers)",
}

BATCH = {
    "chunk": "the index of the first chunk of random numbers",
    "chunk_rounds": "the number of rounds in a chunk",
    "rounds": "the number of rounds in the batch",
    "groups": "the indices of the evaluated groups",
    "leader": "the indices of the two groups and of the outcome on which the [leader "
    "process](mathematics.md#the-verdict) bets in this batch; null without a bet",
    "phase": "in estimate mode: 0 for the pilot, then the number of the attempt to reach epsilon (1, 2, ...). Each "
    "attempt begins new counts. Without estimate mode: 0 until the verdict, and 1 for later rounds, which make "
    "intervals narrower",
    "labels": "the indices of all labels that occur in the batch, counted or not",
    "together": "for each chunk and each outcome, the upper triangle of a symmetric matrix, row by row. Entry (i, j) "
    "is the number of rounds in which the decision is the outcome for both group i and group j. Entry (i, i) is the "
    "number of successes of group i",
    "planned": "the planned number of rounds, if the batch was shortened; otherwise absent",
}

SEGMENT = {
    "points": "the number of points in the segment. Each segment begins where the previous segment ends",
    "evaluations": "the number of evaluated inputs with a positive weight",
    "inputs": "for each subgroup, the number of evaluated inputs with a positive weight",
    "labels": "the indices of all labels that occur for the evaluated inputs, counted or not",
    "weights": "a list of exact weights, or if the probabilities of the inputs are irrational, a list of lower bounds "
    "and a list of upper bounds. For each subgroup, a list contains the total weight of the inputs, then the weight "
    "of the inputs with each outcome. Each weight is a whole number, written as a string",
    "chain": "a hash chain: SHA-256 of the other fields and of the `chain` of the previous segment. The first segment "
    "uses a hash of the network, the data and the question instead of a previous `chain`",
    "only": "for each outcome and each ordered pair (A, B) of compared subgroups, the weight of the points with the "
    "outcome if shown as A, but not if shown as B. Absent if points are not shown as every group, or if there are too "
    "many pairs",
}

COMPARISON = {
    "first": "fields of the first certificate: `verdict`, `constant`, `kind`, `gap`, `threshold`, `delta`, `sound` and "
    "`model_sha256`",
    "second": "the same fields of the second certificate",
    "comparable": "whether the certificates are comparable",
    "differences": "the parts of the question in which the certificates differ",
    "sentence": "a sentence that compares the two gaps",
    "delta": "the largest probability that `sentence` is wrong, which is the sum of both deltas; null if the "
    "certificates are not comparable",
    "promise": "the guarantee of `sentence`; empty if the certificates are not comparable",
    "groups": "for each group and outcome: `name`, `outcome`, the intervals `first` and `second` of the two "
    "certificates, and the change `moved`. An interval is null if the certificate does not contain the group. If the "
    "certificates are comparable, `moved` is `up` or `down` if the intervals show a change, and `same` if both rates "
    "are exact and equal. In all other cases, `moved` is empty",
}

AUDIT = {
    "verdict": "the verdict on the original model: `FAIR`, `UNFAIR`, `UNDECIDED` or `CONSTANT`",
    "constant": "the decision, if all tested inputs get the same decision; otherwise null",
    "gap": "`estimate`, `low` and `high`, as for `verify`",
    "threshold": "the threshold of the property",
    "delta": "the largest probability of a wrong verdict",
    "sound": "whether the guarantee holds",
    "questions": "the verdict on each question, if there are several questions",
    "statement": "the guarantee in a sentence",
    "notes": "remarks, as for `verify`",
    "repaired": "whether a repaired model was accepted",
    "after": "the `gap` of the repaired model, or null",
    "left_out": "the stages that were not possible (`explanation`, `chain`, `repair`), with the reasons",
    "folder": "the output folder",
    "report": "the path of the HTML report",
    "files": "the names of the files in the folder",
    "recheck": "the commands that recheck the certificates",
}

EXIT_CODES = {
    0: "The verdict is FAIR. For `recheck`, the certificate is CONFIRMED. For `demo` and for commands without a "
    "verdict, the command succeeded.",
    1: "The verdict is UNFAIR. For `audit`, the verdict on the original model is UNFAIR. For `recheck`, the "
    "certificate is REJECTED. For `repair`, no candidate was accepted. For `query`, the formula is false. For "
    "`subgroups`, a subgroup is beyond the threshold.",
    2: "The usage or an input is wrong, your code raised an exception, a network crashed the runtime, the memory is "
    "insufficient, or a result could not be written. A message states the problem and the remedy. If writing a "
    "file fails after the work, `verify`, `check` and `repair` still print the result. If standard output fails, the "
    "result is printed on standard error.",
    3: "The verdict is UNDECIDED or CONSTANT. For `recheck`, the certificate is CONSISTENT: an assumption remains, "
    "for example because the issuer chose the seed, or because `recheck` repeated only a sample. For `query`, the "
    "bounds allow both answers.",
    101: "fairchain has a bug. Set `FAIRCHAIN_TRACEBACK=1` to print the traceback.",
    130: "The user interrupted the command before there was a result. `audit` keeps finished stages.",
    141: "The reader of the output closed the pipe.",
    143: "`monitor` was terminated. With `--state`, `monitor` wrote its state before the end.",
}


def render() -> str:
    """Return the whole page."""
    definitions = json_schema()["$defs"]
    parts = [
        "# Reference",
        "This page lists the keys of a spec, the fields of certificates, the exit codes, and the JSON output of the "
        "commands `verify`, `check`, `compare` and `audit`. [The spec file](spec.md) explains the keys, and the "
        "[glossary](glossary.md) defines the terms. `python docs/make_reference.py` generates this page from the "
        "program.",
        "[Spec](#spec) · [JSON output](#json-output) · [Certificates](#certificates) · [Comparisons](#comparisons) · "
        "[Audits](#audits) · [Exit codes](#exit-codes)",
        "## Spec",
        "The following tables list the keys of a spec file. A key with a star is required.",
    ]
    for heading, names in PARTS.items():
        parts.append(f"### {heading}")
        parts += [_struct(definitions[name]) for name in names]
    parts += [
        "## JSON output",
        "`fairchain verify --json` and `fairchain check --json` print one object. If the command fails, the object "
        "contains the message (`error`) and the [exit code](#exit-codes) (`exit_code`). For one question, the object "
        "has the fields of the following table.",
        "For several questions, the object has other fields. For each question, the list `questions` contains an "
        "object with the fields of the table. The fields `verdict`, `delta` and `statement` are about all questions "
        "together, and `evaluations` and `seconds` are totals. The list `unanswered` contains the questions that a "
        "stopped run did not reach.",
        _table("field", VERDICT),
        "### Reasons to stop",
        "The field `stopped` has one of these values:",
        _table("value", STOPPED),
        "### Rules",
        "The field `rule` has one of these values:",
        _table("value", RULES),
        "## Certificates",
        "A certificate is a JSON file of at most 200 MB. [What a certificate "
        "proves](mathematics-intervals.md#what-the-certificate-proves) and [the threat model](trust.md) explain its "
        "use. A certificate of one question has the fields of the following table.",
        "For several questions, the list `members` contains one certificate for each question. The fields `verdict` "
        "and `delta` are about all questions together. The field `format` is `fairchain-family-certificate`, and "
        "`version` is as in the table. The field `digest` is the SHA-256 of `format`, `version`, `verdict`, `delta` "
        "and the digests of the members.",
        _table("field", CERTIFICATE),
        "### Evidence",
        "The evidence about drawn inputs has these fields:",
        _table("field", DRAWN),
        "Each of the `batches` has these fields:",
        _table("field", BATCH),
        "The evidence about the rows of a table, or about texts, has these fields:",
        _table("field", ROWS),
        "The evidence of an enumeration has these fields:",
        _table("field", ENUMERATION),
        "Each of the `segments` has these fields:",
        _table("field", SEGMENT),
        "## Comparisons",
        "`fairchain compare A.json B.json --json` prints one object. Two certificates are comparable if both rules "
        "are sound, and if the properties (apart from the threshold), labels, features, populations and tables are "
        "the same. The networks, thresholds, deltas and seeds may differ.",
        _table("field", COMPARISON),
        "## Audits",
        "`fairchain audit SPEC -o FOLDER --json` prints one object. [Audits and their report](audit.md) describes the "
        "files. If there are several questions, `verdict` is the joint verdict, and `questions` lists the single "
        "verdicts. The fields `constant`, `gap`, `threshold`, `delta`, `sound`, `statement`, `notes` and `after` are "
        "about the question with the [worst result](audit.md#several-questions).",
        _table("field", AUDIT),
        "## Exit codes",
        "All commands use the following exit codes:",
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
    return (
        f"{head}\n\n{_rows(['key', 'type', 'default', ''], rows)}" if rows else f"{head} This kind has no other keys."
    )


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
