"""
Delegation tokens (KIP-48, KIP-373): CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40),
DescribeDelegationToken (41).
"""

from __future__ import annotations

from logbus.wire.schema import Bytes, Int16, Int32, Int64, String, field, message, struct


@struct
class TokenPrincipal:
    """A principal, such as ``User`` and ``alice``."""

    principal_type: String
    principal_name: String


@message(38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    """
    Create a token.

    :ivar owner_principal_name: whom it stands for; None: whoever asks.
    :ivar max_lifetime_ms: -1: that of the configuration.
    """

    owner_principal_type: String | None = field("3+", default=None)
    owner_principal_name: String | None = field("3+", default=None)
    renewers: list[TokenPrincipal]
    max_lifetime_ms: Int64 = -1


@message(38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The response to :class:`CreateDelegationTokenRequest`."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field("3+", default="", ignorable=True)
    token_requester_principal_name: String = field("3+", default="", ignorable=True)
    issue_timestamp_ms: Int64 = -1
    expiry_timestamp_ms: Int64 = -1
    max_timestamp_ms: Int64 = -1
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


@message(39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Let a token live longer: ``renew_period_ms`` from now; negative: as the configuration says."""

    hmac: Bytes
    renew_period_ms: Int64 = -1


@message(39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    """The response to :class:`RenewDelegationTokenRequest`."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = -1
    throttle_time_ms: Int32 = 0


@message(40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Let a token end: ``expiry_time_period_ms`` from now; negative: at once."""

    hmac: Bytes
    expiry_time_period_ms: Int64 = -1


@message(40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """The response to :class:`ExpireDelegationTokenRequest`."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = -1
    throttle_time_ms: Int32 = 0


@message(41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Describe the tokens that some principals own or may renew; None: all."""

    owners: list[TokenPrincipal] | None = None


@struct
class DescribedDelegationToken:
    """A token."""

    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+", default="", ignorable=True)
    token_requester_principal_name: String = field("3+", default="", ignorable=True)
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[TokenPrincipal]


@message(41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The response to :class:`DescribeDelegationTokenRequest`."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
