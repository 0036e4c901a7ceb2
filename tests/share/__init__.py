"""Tests of share groups' partitions."""
