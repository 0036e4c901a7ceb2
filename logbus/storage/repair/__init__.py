"""Damaged segments: found by the scrubber, fetched again from another replica."""
