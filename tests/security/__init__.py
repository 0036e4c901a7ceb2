"""Tests of :mod:`logbus.security`."""
