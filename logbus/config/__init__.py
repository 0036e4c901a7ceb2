"""
Configuration: Kafka's keys, declared once, and a layered view of what is in force.

* :mod:`~logbus.config.keys`: the declarations, by subject; :mod:`~logbus.config.kinds` and
  :mod:`~logbus.config.config_key` are what they are made of, :mod:`~logbus.config.key_table` finds them by name.
* :mod:`~logbus.config.properties`: the syntax of ``server.properties``.
* :mod:`~logbus.config.config_view`: default < file < ``--set`` < cluster < broker < topic, and who is told of changes;
  :mod:`~logbus.config.validation`: what must hold between keys.
* :mod:`~logbus.config.topic_config`: the frozen value that a log holds.
* :mod:`~logbus.config.describe_configs` and :mod:`~logbus.config.reference`: for DescribeConfigs and for the
  documentation.

::

    view = ConfigView.load(parse_properties(text), {"num.partitions": "3"})
    view.get(keys.NUM_PARTITIONS)
"""

from logbus.config.config_view import ConfigView, Source
from logbus.config.properties import parse_properties
from logbus.config.topic_config import TopicConfig

__all__ = ["ConfigView", "Source", "TopicConfig", "parse_properties"]
