"""The command `check`: a question about a model and a table, without a spec file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from fairchain.cli import options as shared
from fairchain.cli.options import PATH
from fairchain.cli.terminal import progress_of
from fairchain.cli.verify import result_files, show_result


@shared.command(
    "Decide about a model and a table, without a spec.", "check data.csv --model model.onnx --protected sex"
)
@click.argument("data", type=PATH)
@click.option(
    "--model",
    help="Model: a file, python:package.module:name, or the address of a service (http://HOST/v2/models/NAME, "
    "http://HOST/invocations). Recorded decisions need no model.",
)
@shared.service
@shared.deterministic
@click.option(
    "--protected", multiple=True, help="Column whose groups are compared. Repeat the option to compare combinations."
)
@shared.text
@shared.terms
@shared.prediction
@click.option("--label", help="Column with the true labels.")
@shared.choice(
    "--as",
    ["population", "sample", "observed", "swapped"],
    "Meaning of the rows: a whole population, a sample, observed texts, or swapped texts.  [default: sample; for "
    "texts: observed, or swapped with --kind individual; if fairchain divides a numeric protected column into ranges: "
    "population]",
    to="reading",
)
@shared.kind
@shared.outcome
@shared.given
@shared.criterion
@shared.compare
@shared.min_size
@shared.shift
@shared.shift_of
@click.option(
    "--threshold",
    type=float,
    help="Largest difference, or smallest ratio, that counts as fair.  [default: 0.1, for a ratio 0.8]",
)
@shared.decision
@shared.decision_threshold
@shared.labels
@shared.model_output
@shared.ignore
@shared.delta
@shared.max_evaluations
@shared.count(
    "--depth",
    "Largest number of protected columns in one question. With 2, fairchain asks one question for each column and for "
    "each pair of columns. All questions share delta.",
)
@shared.allow_constant
@shared.show_texts
@shared.seed
@shared.workers
@click.option("--show-spec", is_flag=True, help="Print the spec that is used, with every assumption as a comment.")
@shared.certificate
@shared.junit
@shared.summary
@shared.as_json
@shared.quiet
def check(
    data: Path,
    model: str | None,
    protected: tuple[str, ...],
    depth: int | None,
    workers: int | None,
    executor: str | None,
    show_spec: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Decide, without a spec file, whether a model treats the groups of a table or of texts alike.

    DATA is a CSV or Parquet file, or a file with texts. State the groups (--protected or --terms), and either the model
    (--model) or the recorded decisions (--prediction). fairchain infers or assumes all parts of the question that you
    do not state, and prints every assumption.

    \b
    Exit codes:
      0  fair
      1  unfair
      2  bad input, or a result that cannot be written
      3  undecided, or a constant model
    """  # noqa: D301
    from fairchain.checking import answer_check, prepare_check
    from fairchain.drafting import write_spec
    from fairchain.errors import SpecError
    from fairchain.executors import open_workers

    if (model is None) == (options["prediction"] is None):
        raise SpecError("give either --model, or --prediction with the column of recorded decisions")
    files = result_files(options)
    opened_model = shared.opened_model(model, options, quiet=quiet or as_json)
    case, draft = prepare_check(
        opened_model, data, protected=protected, certify=files["certificate"] is not None, **options
    )
    if show_spec:
        print(write_spec(draft), file=sys.stderr if as_json else sys.stdout)
    with progress_of("verify", quiet or as_json) as progress, open_workers(workers, executor) as opened:
        verdict = answer_check(case, depth, workers=opened, progress=progress)
    shared.tell_requests(opened_model)
    return show_result(verdict, data, files, as_json=as_json, quiet=quiet)
