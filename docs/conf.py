"""How `make docs` builds the pages: Markdown as it is, cross links checked, warnings are errors."""

import re
from typing import Any

from toolkit import __version__

project = "toolkit"
author = "The toolkit authors"
release = __version__
extensions = ["myst_parser"]
root_doc = "docs/index"
# linked from the pages, so the repository's root is the folder of all
_READMES = ["README", "CHANGELOG", "traces/README", "notebooks/README", "tests/data/kimi-k2.5-tp8/README"]
include_patterns = ["docs/**.md", *(f"{name}.md" for name in _READMES)]
exclude_patterns = ["build", ".*"]
myst_heading_anchors = 4  # links to sections are those that Markdown viewers make
smartquotes = False  # else --option becomes a dash and a word
nitpicky = True
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "240px"}
html_title = "toolkit"
html_show_copyright = False


def _add_contents(_app: Any, name: str, source: list[str]) -> None:
    """Make the table of contents of the links on the index: a page that it does not name is a warning."""
    if name == root_doc:
        pages = dict.fromkeys(re.findall(r"\]\(([^)#:.][^)#:]*)\.md\)", source[0]))
        entries = "\n".join([*pages, *(f"../{readme}" for readme in _READMES)])
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)
