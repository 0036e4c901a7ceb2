"""This broker's replicas: logs with their roles, in-sync replicas, high watermarks, and the reads from them."""
