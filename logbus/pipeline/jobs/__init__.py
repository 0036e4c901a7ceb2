"""Jobs on Spark: each is a function, and a command of ``logbus pipeline``."""
