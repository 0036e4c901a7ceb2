"""Tables of Parquet files, whose manifests say which offsets of which topics are in them."""
