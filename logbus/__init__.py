"""
logbus: a Kafka-compatible, replicated commit log on Twisted.

How the packages depend on each other, and the path a request takes through them, is in
``docs/explanation/architecture.rst``.
"""

__version__ = "0.1.0"
