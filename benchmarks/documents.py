"""Sentences of the documentation with numbers, from the kept counts and RESULTS.md; a test compares the documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from statistics import fmean

from benchmarks.parts.bounds import EXAMPLES, INPUTS, LAYERS
from benchmarks.parts.planted import PLANTED
from benchmarks.parts.simulated_cluster import FAILURES, KEPT_REPLIES, KEPT_TALLY
from benchmarks.results import Counts, kept_counts
from benchmarks.sizes import PAPER

RESULTS = Path(__file__).with_name("RESULTS.md")
NUMBERS = {2: "two", 6: "six", 12: "twelve", 14: "fourteen"}


def sentences() -> Iterator[tuple[str, str]]:
    """Yield each document and a text that it must contain."""
    kept = kept_counts()
    yield "README.md", against_verifair(kept["comparison"])
    yield "README.md", against_sequences(kept["comparison"])
    for row in planted_rows(kept["planted"]):
        yield "docs/repair.md", row
    for row in [*search_rows(), *threshold_rows()]:
        yield "docs/repair.md", row
    yield "docs/mathematics.md", cost_of_stakes(kept["stakes"])
    yield "docs/mathematics.md", wrong_at_threshold(kept["error_split"])
    yield "docs/mathematics-tables.md", rows_by_pairs(kept["sample_rows"])
    for text in cluster_costs(kept["simulated_cluster"]):
        yield "docs/scaling.md", text
    for row in cluster_rows(kept["simulated_cluster"]):
        yield "docs/scaling.md", row
    for row in [*random_rows(kept["bounds"]), *example_rows(kept["bounds"])]:
        yield "docs/exact.md", row


def against_verifair(comparison: Counts) -> str:
    """Return how many evaluations VeriFair's rule needs for one of ours."""
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for name in comparison:
        case, _, method = name.rpartition(" / ")
        if method == "fairchain 1e-6":
            ratio = _mean(comparison[f"{case} / VeriFair 1e-6"]) / _mean(comparison[name])
            ratios["comments" in case].append(ratio)
    others, texts = ratios[False], sorted(ratios[True])
    text = f"{min(others):.0f} to {max(others):.0f} times as many on {NUMBERS[len(others)]} feed-forward cases"
    return (
        f"{text}, {' and '.join(f'{ratio:.0f}' for ratio in texts)} times as many on two text cases" if texts else text
    )


def against_sequences(comparison: Counts) -> str:
    """Return how many evaluations confidence sequences need for one of ours."""
    ratios = []
    for name, values in comparison.items():
        case, _, method = name.rpartition(" / ")
        if method == "sequences 1e-6":
            ratios.append(_mean(values) / _mean(comparison[f"{case} / fairchain 1e-6"]))
    return f"{min(ratios):.1f} to {max(ratios):.0f} times as many on the {NUMBERS[len(ratios)]} cases"


def planted_rows(planted: Counts) -> Iterator[str]:
    """Yield the rows of the table of planted units."""
    for family, what in PLANTED.items():
        ranks = [planted[f"{family} / rank by {measure}"] for measure in ("effect", "sensitivity")]
        cells = " | ".join(f"{each.count(1)} of {len(each)}" for each in ranks)
        yield f"| {what} | {cells} |"


def measured_rows(title: str) -> list[list[str]]:
    """Return the cells of a table of RESULTS.md, row by row without the head."""
    text = RESULTS.read_text(encoding="utf-8").partition(f"\n### {title}\n")[2]
    lines = list(takewhile(lambda line: line.startswith("|"), text.lstrip().splitlines()))
    assert len(lines) > 2, f"RESULTS.md has no table with the title: {title}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def search_rows() -> Iterator[str]:
    """Yield the rows of the table of searches: the agreement on the paper's credit network with 1,000 candidates."""
    titles = (
        "paper's particle swarm, factors of 10 neurons",
        "particle swarm, weights of the protected features",
        "evolution, weights of the protected features",
    )
    for case, candidates, *agreements in measured_rows("Agreement reached by each search"):
        if (case, candidates) == ("credit age", "1,000"):
            for title, agreement in zip(titles, agreements, strict=True):
                yield f"| {title} | {agreement} |"


def threshold_rows() -> Iterator[str]:
    """Yield the rows of the table of decision thresholds, without their times."""
    titles = ("original classifier", "fairlearn", "fairchain")
    rows = measured_rows("Thresholds for each group of the census by sex")
    for title, (_, gap, accuracy, _) in zip(titles, rows, strict=True):
        yield f"| {title} | {gap} | {accuracy} |"


def cost_of_stakes(stakes: Counts) -> str:
    """Return the mean and worst cost of the stakes in use and of equal ones."""
    ours, equal = (
        [(value or 0) / 1000 for value in stakes[f"{name} / alpha 1e-06 / mean, median, worst in thousandths"]]
        for name in ("in use", "twelve equal")
    )
    return (
        f"The cost is on average {ours[0]:.2f} and at worst {ours[2]:.2f}. For 12 stakes with equal shares, where each "
        f"stake is half of the previous stake, the cost is on average {equal[0]:.2f} and at worst {equal[2]:.2f}."
    )


def wrong_at_threshold(error_split: Counts) -> str:
    """Return the share of wrong answers with half of delta for each answer, and with the whole of it."""
    half, whole = ((values[0] or 0) / 1500 for values in error_split.values())
    return (
        f"With the level `1/delta` for each verdict, {whole:.1%} of the runs end with FAIR or UNFAIR. With the "
        f"level `2/delta` for each verdict, {half:.1%} of the runs end with FAIR or UNFAIR."
    )


def rows_by_pairs(sample_rows: Counts) -> str:
    """Return how many times as many rows pairs need as counts."""
    ratios = {}
    for name, rows in sample_rows.items():
        case, _, rule = name.rpartition(" / ")
        if rule == "rows by pairs":
            ratios[case] = _mean(rows) / _mean(sample_rows[f"{case} / rows by counts"])
    return f"{min(ratios.values()):.1f} to {max(ratios.values()):.1f} times as many rows"


def cluster_costs(cluster: Counts) -> Iterator[str]:
    """Yield what the coordinator of a simulated cluster costs, and the cores at which it saturates."""
    none, dask, ray = (KEPT_REPLIES[title] for title in ("none", "Dask", "Ray"))
    yield f"{KEPT_TALLY:.1f} microseconds for a tally (the counts of 8,192 rounds and four groups)"
    yield f"{none:.0f} microseconds for each reply"
    yield (
        f"Dask's client and scheduler in one process need {(dask - none) / 1000:.1f} milliseconds, "
        f"and Ray's driver needs {(ray - none) / 1000:.1f} milliseconds"
    )
    cores = [cluster[f"{title} / cores until it saturates"][0] for title in ("none", "Dask", "Ray")]
    yield (
        f"saturates at {cores[0]} cores without a scheduler, at {cores[1]} cores with Dask and at {cores[2]} cores "
        "with Ray"
    )


def cluster_rows(cluster: Counts) -> Iterator[str]:
    """Yield the rows of the table of simulated runs."""
    for title in KEPT_REPLIES:
        for failures in FAILURES:
            seconds, perfect, lost, busy = cluster[f"{title} / {failures:g} failures an hour"]
            yield f"| {title} | {failures:g} | {seconds} | {perfect} | {lost} | {busy}% |"


def random_rows(bounds: Counts) -> Iterator[str]:
    """Yield the rows of the table of certain intervals that are about random networks."""
    most = PAPER.bound_boxes[-2]
    for inputs in INPUTS:

        def found(what: str, inputs: int = inputs) -> list[int]:
            names = [f"{inputs} real inputs / {' + '.join(map(str, layers))} / {what}" for layers in LAYERS]
            values = [value for name in names for value in bounds[name]]
            assert None not in values, f"not every network of {inputs} real inputs reached it: {what}"
            return [value for value in values if value is not None]

        if inputs == 2:
            few, many = found("boxes until 0.01"), found("boxes until 0.001")
            shown = f"width 0.01 after {min(few):,} to {max(few):,} boxes, 0.001 after {min(many):,} to {max(many):,}"
        else:
            few = found(f"millionths after {most} boxes")
            shown = f"width {min(few) / 1e6:.3f} to {max(few) / 1e6:.3f} after {most:,} boxes"
        sizes = [sum(layers) for layers in LAYERS]
        yield f"| {inputs} real inputs, {min(sizes)} to {max(sizes)} ReLUs ({len(few)} networks) | {shown} |"


def example_rows(bounds: Counts) -> Iterator[str]:
    """Yield the rows of that table that are about the examples."""
    for network, protected in EXAMPLES:
        found = [bounds[f"{network} {protected} / millionths after {boxes} boxes"] for boxes in PAPER.bound_boxes]
        widths = [
            f"{(each[0] or 0) / 1e6:.4f} after {boxes:,}" for each, boxes in zip(found, PAPER.bound_boxes, strict=True)
        ]
        settled = (found[-1][1] or 0) / 1e6
        yield f"| `{network}`, groups of {protected} | width {', '.join(widths)} boxes; {settled:.2%} settled |"


def _mean(values: list[int | None]) -> float:
    return fmean(value for value in values if value is not None)
