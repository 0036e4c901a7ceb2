"""The producer: records collected into batches, sent to the leaders of their partitions, alone or in transactions."""
