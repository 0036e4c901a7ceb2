"""The consumer: records fetched from the leaders of partitions, delivered in order, with positions and commits."""
