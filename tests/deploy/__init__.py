"""Tests of what ``deploy/`` gives to operators."""
