"""
Transactions: several partitions, and a group's offsets, change together or not at all (KIP-98, KIP-360, KIP-890).
"""
