"""Fault tests with real brokers, a real ZooKeeper and real clients."""
