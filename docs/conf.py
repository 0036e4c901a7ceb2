"""Sphinx configuration: ``sphinx-build -W -b html docs docs/_build/html``."""

import sys
from pathlib import Path

import logbus

sys.path[:0] = [str(Path(__file__).parent / "ext"), str(Path(__file__).parent / "howto" / "line_protocol")]

project = "logbus"
author = "The logbus developers"
copyright = "2026, The logbus developers"
version = release = logbus.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "generated",
    "layers",
    "state_diagram",
    "versions",
]
exclude_patterns = ["_build", "newsfragments"]
html_theme = "furo"
html_title = "logbus"
html_static_path = ["_static"]
html_css_files = ["logbus.css"]
# furo's own, with the version, and without advertisements.
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_sphinx = False
# What a button copies of a session: the commands, without their prompts and without what they answer.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
nitpicky = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
# A word in single backticks is code, as it is in docstrings.
default_role = "code"
