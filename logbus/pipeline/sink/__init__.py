"""The write side of ``format("logbus")``: DataFrames to topics."""
