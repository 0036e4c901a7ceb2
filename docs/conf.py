"""Sphinx configuration: ``sphinx-build -W -b html docs docs/_build/html``."""

import sys
from pathlib import Path

import logbus

sys.path[:0] = [str(Path(__file__).parent / "ext"), str(Path(__file__).parent / "howto" / "line_protocol")]

project = "logbus"
author = "The logbus developers"
copyright = "2026, The logbus developers"
version = release = logbus.__version__

extensions = ["sphinx.ext.autodoc", "generated", "layers", "state_diagram"]
exclude_patterns = ["_build", "newsfragments"]
html_theme = "alabaster"
html_theme_options = {"description": "A Kafka-compatible commit log on Twisted", "fixed_sidebar": True}
nitpicky = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
# A word in single backticks is code, as it is in docstrings.
default_role = "code"
