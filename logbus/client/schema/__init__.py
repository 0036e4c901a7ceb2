"""Avro, and a client of a schema registry."""
