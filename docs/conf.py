"""Sphinx configuration: ``sphinx-build -W -b html docs docs/_build/html``."""

import logbus

project = "logbus"
author = "The logbus developers"
copyright = "2026, The logbus developers"
version = release = logbus.__version__

extensions = ["sphinx.ext.autodoc"]
exclude_patterns = ["_build", "newsfragments"]
html_theme = "alabaster"
html_theme_options = {"description": "A Kafka-compatible commit log on Twisted", "fixed_sidebar": True}
nitpicky = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
