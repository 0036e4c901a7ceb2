"""Tests of :mod:`logbus.coordination.streams`."""
