"""Tests of :mod:`logbus.security.tls`."""
