"""What record values become in a table: bytes, JSON or Avro."""
