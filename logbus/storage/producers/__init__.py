"""Producer state: sequence numbers, snapshots, open and aborted transactions."""
