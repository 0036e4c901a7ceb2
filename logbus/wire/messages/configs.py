"""Settings: DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74)."""

from __future__ import annotations

from logbus.wire.schema import Bool, Int8, Int16, Int32, String, field, message, struct


@struct
class DescribeConfigsResource:
    """A topic (type 2) or broker (type 4) to describe; no keys stand for all of its settings."""

    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None = None


@message(32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """Describe settings."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field("1+", default=False)
    include_documentation: Bool = field("3+", default=False)


@struct
class DescribeConfigsSynonym:
    """A value that applies if those before it are not set."""

    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    """One setting; version 0 has ``is_default`` where the later ones have ``config_source``."""

    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = field("1+", default=-1, ignorable=True)
    is_default: Bool = field("0", default=False, ignorable=True)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym] = field("1+", factory=list, ignorable=True)
    config_type: Int8 = field("3+", default=0, ignorable=True)
    documentation: String | None = field("3+", default=None, ignorable=True)


@struct
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@message(32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """The response to :class:`DescribeConfigsRequest`."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]


@struct
class AlterableConfig:
    """A setting; None resets it to its default."""

    name: String
    value: String | None


@struct
class AlterConfigsResource:
    """All settings of a resource; those not named are reset to their defaults."""

    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replace the settings of resources, or only validate that."""

    resources: list[AlterConfigsResource]
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@message(33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """The response to :class:`AlterConfigsRequest`."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


@struct
class IncrementalAlterableConfig:
    """A change of one setting; the operations are 0 set, 1 delete, 2 append and 3 subtract (of lists)."""

    name: String
    config_operation: Int8
    value: String | None


@struct
class IncrementalAlterConfigsResource:
    """The changes to one resource."""

    resource_type: Int8
    resource_name: String
    configs: list[IncrementalAlterableConfig]


@message(44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Change some settings of resources and keep the others (KIP-339), or only validate that."""

    resources: list[IncrementalAlterConfigsResource]
    validate_only: Bool = False


@message(44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """The response to :class:`IncrementalAlterConfigsRequest`."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


@message(74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """List resources that have settings. No types stand for all; version 0 lists those of client metrics only."""

    resource_types: list[Int8] = field("1+", factory=list)


@struct
class ConfigResource:
    """One resource; its type in version 0 is 16, client metrics."""

    resource_name: String
    resource_type: Int8 = field("1+", default=16, ignorable=True)


@message(74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """The response to :class:`ListConfigResourcesRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(factory=list)
