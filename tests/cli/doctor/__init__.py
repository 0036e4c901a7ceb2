"""Tests of :mod:`logbus.cli.doctor`."""
