"""Which versions of the APIs a client uses with a broker (KIP-35, KIP-511). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from logbus import __version__
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages import api, api_name
from logbus.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from logbus.wire.version_range import VersionRange

_API_VERSIONS = 18
NEWEST = api(_API_VERSIONS).versions.max
"""The version in which to ask for API versions at first."""


def api_versions_request(version: int) -> ApiVersionsRequest:
    """The request for the broker's API versions."""
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="logbus", client_software_version=__version__)


def version_after_refusal(refusal: ApiVersionsResponse) -> int:
    """
    The version in which to ask again after UNSUPPORTED_VERSION. Newer brokers name the versions that they
    support; older ones support version 0.
    """
    known = next((each.max_version for each in refusal.api_keys if each.api_key == _API_VERSIONS), 0)
    return max(0, min(known, NEWEST))


def served(response: ApiVersionsResponse) -> tuple[dict[int, VersionRange], dict[str, int]]:
    """The broker's API versions, by API key, and the cluster's finalized feature levels (KIP-584), by name."""
    versions = {each.api_key: VersionRange(each.min_version, each.max_version) for each in response.api_keys}
    return versions, {each.name: each.max_version_level for each in response.finalized_features}


def highest_common_version(api_key: int, served: Mapping[int, VersionRange], peer: str) -> int:
    """
    The highest version of an API that both sides support.

    :param peer: the broker, for the message.
    :raises ApiError: UNSUPPORTED_VERSION: there is none.
    """
    ours = api(api_key).versions
    theirs = served.get(api_key)
    if theirs is not None and max(ours.min, theirs.min) <= min(ours.max, theirs.max):
        return min(ours.max, theirs.max)
    what = "does not serve it" if theirs is None else f"serves versions {theirs}"
    name = api_name(api_key)
    raise ApiError(
        ErrorCode.UNSUPPORTED_VERSION, f"{name} is spoken here at versions {ours}; the broker at {peer} {what}"
    )
