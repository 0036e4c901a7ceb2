"""
ApiVersions, UpdateFeatures: the supported API versions and finalized features (KIP-35, KIP-511, KIP-584).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Self

from attrs import define
from twisted.logger import Logger

from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import Answer, serves
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.kafka_releases import advertised_table, finalized_features
from logbus.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FeatureUpdateKey,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from logbus.wire.version_range import VersionRange

FEATURES_EPOCH = 2
"""
The epoch of the finalized features (KIP-584). They do not change while a broker runs. A release with other features
must have a greater epoch, since clients keep the features with the greatest one.
"""

#: The first version whose clients accept a feature with the minimum level 0 (KIP-1022).
FEATURES_FROM_ZERO_VERSION = 4

# The pattern is KIP-511's; the length is limited here, since names are shown in logs and metrics.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]{0,126}[a-zA-Z0-9])?")


@define(eq=False)
class ApiVersionsHandlers:
    """
    Serves ApiVersions and UpdateFeatures.

    :param advertised: returns the versions by API key.
    """

    _advertised: Callable[[], Mapping[int, VersionRange]]
    _log = Logger()

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        @cache
        def advertised() -> Mapping[int, VersionRange]:
            # With the first request, when the router has all handlers.
            apis = broker.router.apis.values()
            offered = {api.api_key: api.versions for api in apis if api.advertised_if(broker.config)}
            return advertised_table(broker.release, offered)

        return cls(advertised)

    @serves(18, 0, 4)
    def api_versions(self, context: RequestContext, request: Request) -> Answer:
        message: ApiVersionsRequest = request.message
        if request.unsupported:
            # KIP-511: respond in version 0 with the range of this API, so that the client can retry.
            first, last = self._advertised()[18]
            return ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[ApiVersion(api_key=18, min_version=first, max_version=last)],
            )
        if request.api_version >= 3:
            name, version = message.client_software_name, message.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            context.software_name, context.software_version = name, version
            self._log.debug(
                "{host}:{port} is {name} {version}", host=context.host, port=context.port, name=name, version=version
            )
        features = finalized_features(self._advertised())
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in sorted(self._advertised().items())
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=0, max_version=level)
                for name, level in features.items()
                if request.api_version >= FEATURES_FROM_ZERO_VERSION
            ],
            finalized_features_epoch=FEATURES_EPOCH if features else -1,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.items()
            ],
        )

    @serves(57, 0, 2)
    def update_features(self, context: RequestContext, request: Request) -> UpdateFeaturesResponse:
        """Features depend on the advertised versions, so an update may only set their present levels."""
        message: UpdateFeaturesRequest = request.message
        try:
            for update in message.feature_updates:
                self._check(update)
        except ApiError as e:
            return UpdateFeaturesResponse(error_code=e.code, error_message=e.message)
        return UpdateFeaturesResponse(
            results=[UpdatableFeatureResult(feature=update.feature) for update in message.feature_updates]
        )

    def _check(self, update: FeatureUpdateKey) -> None:
        """
        Refuse an update that would change a feature.

        :raise ApiError: INVALID_UPDATE_VERSION.
        """
        features = finalized_features(self._advertised())
        level = features.get(update.feature)
        if level is None:
            known = ", ".join(sorted(features)) or "there are none"
            problem = f"there is no feature {update.feature!r} here; known: {known}"
        elif not 0 <= update.max_version_level <= level:
            problem = f"{update.feature} has levels from 0 to {level}, not {update.max_version_level}"
        elif update.max_version_level < level:
            problem = f"{update.feature} stays at {level}: it goes with the versions that the broker advertises"
        else:
            return
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, problem)
