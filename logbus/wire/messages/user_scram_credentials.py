"""SCRAM credentials of users (KIP-554): DescribeUserScramCredentials (50), AlterUserScramCredentials (51)."""

from __future__ import annotations

from logbus.wire.schema import Bytes, Int8, Int16, Int32, String, message, struct


@struct
class UserName:
    """A user."""

    name: String


@message(50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Describe some users; None or an empty list: all."""

    users: list[UserName] | None


@struct
class CredentialInfo:
    """A mechanism with which a user may log in."""

    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    """The credentials of one user, or an error."""

    user: String
    error_code: Int16 = 0
    error_message: String | None = None
    credential_infos: list[CredentialInfo]


@message(50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """The response to :class:`DescribeUserScramCredentialsRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: list[DescribeUserScramCredentialsResult]


@struct
class ScramCredentialDeletion:
    """A user's mechanism to be removed."""

    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    """A user's new password for a mechanism, salted by the client."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Remove and set credentials."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    """Whether all changes of one user were made, or none."""

    user: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """The response to :class:`AlterUserScramCredentialsRequest`."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
