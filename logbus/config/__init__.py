from logbus.config.topic import TopicConfig

__all__ = ["TopicConfig"]
