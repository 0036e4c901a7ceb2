"""A group of the classic protocol, as a pure state machine (Kafka: ClassicGroup)."""
