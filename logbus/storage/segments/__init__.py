"""Segments: the files of a log, their indexes, and their replacement."""
