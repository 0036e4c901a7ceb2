"""Tests of logbus.testing.server."""
