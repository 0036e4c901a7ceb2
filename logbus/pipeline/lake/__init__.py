"""Tables of Parquet files with a commit log, which records the offsets of topics in them."""
