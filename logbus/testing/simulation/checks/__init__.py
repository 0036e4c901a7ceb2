"""What clients saw and brokers hold, and whether it is correct."""
