"""A small client that blocks, for processes without a reactor: Spark's drivers and workers."""
