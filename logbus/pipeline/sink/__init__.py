"""Writing what Spark has to topics."""
