"""Log compaction: the cleaner, its choice of a log, and one cleaning."""
