"""Real brokers, a real ZooKeeper and real clients, while things go wrong."""
