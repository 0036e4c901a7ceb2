"""Tests of the commands that take the options of Kafka's scripts."""
