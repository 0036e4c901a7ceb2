"""Tests of :mod:`logbus.coordination.share_state`."""
