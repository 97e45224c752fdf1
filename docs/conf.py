"""Settings of the documentation site: `make docs` builds it with Sphinx from the pages in this folder."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {
    "../benchmarks/RESULTS.md": "benchmarks.md",
    "../benchmarks/NETWORKS.md": "benchmarks.md",
    "../CONTRIBUTING.md": "architecture.md",
}

project = "fairchain"
author = "The fairchain team"
copyright = author
version = release = runpy.run_path(str(ROOT / "src" / "fairchain" / "_version.py"))["__version__"]

extensions = ["myst_nb"]
# Notebooks are run by the tests; the site shows the outputs that they have.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "conf.py"]
html_theme = "furo"
html_title = f"fairchain {release}"
html_static_path: list[str] = []
html_copy_source = False
# Dollar signs of shell sessions are no mathematics.
myst_dmath_double_inline = True
linkcheck_timeout = 20


def _pages_of_the_site(_app: Any, _name: str, content: list[str]) -> None:
    """Point to the site's own page where a link names a file outside of this folder."""
    for file, page in PAGES.items():
        content[0] = content[0].replace(f"]({file}", f"]({page}")


def _sample_report(app: Any, error: Exception | None) -> None:
    """Audit an embedded network into the built site, so that a reader can open a real report."""
    if error is None and app.builder.format == "html":
        import fairchain

        fairchain.audit(fairchain.example("credit"), Path(app.outdir) / "sample-report", restart=True)


def setup(app: Any) -> None:
    """Register the rewriting of links and the sample report."""
    app.connect("source-read", _pages_of_the_site)
    app.connect("build-finished", _sample_report)
