"""Options that several commands share, and what their exit codes mean."""

from __future__ import annotations

from pathlib import Path

import click

EXIT_CODES = {"FAIR": 0, "UNFAIR": 1, "UNDECIDED": 3, "CONSTANT": 3}

PATH = click.Path(path_type=Path)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Print the last word only, and no progress.")
allow_constant = click.option(
    "--allow-constant", is_flag=True, default=None, help="Accept a model that gives every input the same decision."
)
seed = click.option("--seed", type=int, help="A chosen seed; without one it is derived from network, spec and data.")
