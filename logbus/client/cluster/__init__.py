"""What a client knows of a cluster: its brokers, connections to them, topic metadata, and coordinators."""
