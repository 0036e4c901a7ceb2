"""Tests of :mod:`logbus.coordination.share`."""
