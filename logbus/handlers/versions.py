"""
ApiVersions: what this broker serves, and what software asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define
from twisted.logger import Logger

from logbus.errors import ErrorCode
from logbus.handlers.routing import Answer, VersionRange, serves
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from logbus.wire.releases import finalized_features

FEATURES_EPOCH = 1
"""Which state of the cluster's features this is (KIP-584): they do not change while a broker runs."""

#: The first version whose clients can read that a feature may be off: supported from level 0 (KIP-1022).
FEATURES_FROM_ZERO_VERSION = 4

# KIP-511; the length is ours, so that a name can go into logs and metrics.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]{0,126}[a-zA-Z0-9])?")


@define(eq=False)
class VersionHandlers:
    """
    Serves ApiVersions.

    :ivar advertised: the table, by API key; complete before the first request.
    """

    advertised: Mapping[int, VersionRange]
    _log = Logger()

    @serves(18, 0, 4)
    def api_versions(self, context: RequestContext, request: Request) -> Answer:
        message: ApiVersionsRequest = request.message
        if request.unsupported:
            # KIP-511: version 0, with the range of this very API, so that the client can ask again.
            first, last = self.advertised[18]
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
        features = finalized_features(self.advertised)
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in sorted(self.advertised.items())
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
