"""
Configuration: the declarations of Kafka's keys, and a layered view of the effective values. Pure.

A file's text goes through properties into a view, which resolves layers by the declarations; other packages read the
view by key, or get records such as a topic's configuration from it.

* ``keys``: the declarations by subject
* ``config_key``: a declaration
* ``kinds``: kinds of values
* ``listener_address``: listeners as values
* ``key_table``: keys by name
* ``properties``: the syntax of ``server.properties``
* ``config_view``: default < file < ``--set`` < cluster < broker < topic, and subscriptions to changes
* ``setting_checks``: settings one by one: static, dynamic and stored ones
* ``validation``: combinations of values
* ``topic_config``: the configuration of a topic
* ``group_config``: the configuration of a consumer group or share group
* ``offset_reset``: where a share group begins
* ``client_quotas``: quotas of users, client ids and addresses
* ``mirror_flows``: the settings of each mirror that a broker runs
* ``describe_configs``: entries for DescribeConfigs
* ``reference``: the reference page

::

    view = ConfigView.load(parse_properties(text), {"num.partitions": "3"})
    view.get(keys.NUM_PARTITIONS)
"""

from logbus.config.config_view import ConfigView, Source
from logbus.config.properties import parse_properties
from logbus.config.topic_config import TopicConfig

__all__ = ["ConfigView", "Source", "TopicConfig", "parse_properties"]
