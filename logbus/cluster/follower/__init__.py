"""The follower's side of replication: fetching from leaders, and truncation where the logs differ."""
