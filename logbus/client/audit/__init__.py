"""Counts of records that applications publish and consume, and their comparison."""
