"""The read side of ``format("logbus")``: topics as Spark batches and streams."""
