"""Settings of the documentation site; scripts/docs.py prepares the pages and runs Sphinx."""

from __future__ import annotations

import json
from pathlib import Path

from xdlc import __version__

project = "xdlc"
author = "the authors of xdlc"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
nitpicky = True
# Types of other packages, and names inside xdlc that have no page of their own.
nitpick_ignore_regex = [("py:.*", ".*")]
exclude_patterns = ["_static"]
source_suffix = {".md": "markdown"}

smartquotes = False  # they would change -- of flags
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_typehints = "description"
autodoc_member_order = "bysource"
maximum_signature_line_length = 80

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"xdlc {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fbf", "color-brand-content": "#1f5fbf"},
    "dark_css_variables": {"color-brand-primary": "#7db0ff", "color-brand-content": "#7db0ff"},
}
# A copy button takes the commands of a console block, without prompt and output.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
copybutton_here_doc_delimiter = "EOF"

man_pages = [
    (page, name, summary, author, 1)
    for page, name, summary in json.loads((Path(__file__).parent / "manual.json").read_text())
]
