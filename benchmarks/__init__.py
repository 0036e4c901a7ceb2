"""Benchmarks of logbus, alone and beside Kafka and its clients.  Run from the checkout; see README.rst."""
