"""Appends to a log: validation, and the ways for a leader, a follower and a coordinator."""
