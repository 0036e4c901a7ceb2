"""Tests of :mod:`logbus.cli.backup`."""
