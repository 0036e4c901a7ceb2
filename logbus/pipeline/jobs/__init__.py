"""The pipeline's Spark jobs. Each is a function ``run``, and a command of ``logbus pipeline``."""
