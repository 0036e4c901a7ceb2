"""API versions and features: ApiVersions (18), UpdateFeatures (57)."""

from __future__ import annotations

from logbus.wire.schema import Bool, Int8, Int16, Int32, Int64, String, field, message, struct


@message(18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Ask for the broker's API versions, and name the client software (KIP-511)."""

    client_software_name: String = field("3+", default="", ignorable=True)
    client_software_version: String = field("3+", default="", ignorable=True)


@struct
class ApiVersion:
    """The supported versions of one API."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    """The levels of a feature that this broker supports (KIP-584)."""

    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    """The level of a feature that the cluster runs at (KIP-584)."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """
    The response to :class:`ApiVersionsRequest`. Its header is always version 0: the client does not know yet what the
    broker can speak. A request of an unknown version is answered in version 0, with error 35.
    """

    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", factory=list, tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", factory=list, tag=2, ignorable=True)
    zk_migration_ready: Bool = field("3+", default=False, tag=3, ignorable=True)


@struct
class FeatureUpdateKey:
    """
    The new level of a feature.

    ``upgrade_type``: 1 upgrade, 2 safe downgrade, 3 downgrade that may lose data; before version 1:
    ``allow_downgrade``.
    """

    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=1)


@message(57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Change levels of features, all or none (KIP-584)."""

    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field("1+", default=False)


@struct
class UpdatableFeatureResult:
    """The result for one feature, up to version 1."""

    feature: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """The response to :class:`UpdateFeaturesRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: list[UpdatableFeatureResult] = field("0-1", factory=list, ignorable=True)
