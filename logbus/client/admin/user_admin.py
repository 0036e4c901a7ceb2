"""The admin client's part for users that log in by SCRAM (KIP-554)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import field, frozen

from logbus.client.admin.config_admin import response_error
from logbus.client.cluster.cluster import Cluster
from logbus.client.validators import InvalidOption, texts
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError
from logbus.security.sasl.scram_credential import MIN_ITERATIONS, salt_text, salted_password
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

SCRAM_MECHANISMS: Mapping[str, int] = MappingProxyType({"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2})
"""The mechanisms, and their numbers in requests."""

_NAMES = {number: name for name, number in SCRAM_MECHANISMS.items()}


@frozen
class ScramPassword:
    """
    A new password of a user for one mechanism.

    :ivar iterations: of its hash; brokers take 4096 to 16384.
    """

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = MIN_ITERATIONS


class UserAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for users."""

    _cluster: Cluster

    @returns_deferred
    async def describe_scram_users(self, names: Iterable[str] = ()) -> dict[str, dict[str, int] | ApiError]:
        """
        The mechanisms by which users can log in, with the numbers of iterations.

        :param names: none: all users that have any.
        """
        users = [UserName(name=name) for name in texts("names", names)]
        channel = await self._cluster.any_channel()
        request = DescribeUserScramCredentialsRequest(users=users or None)
        response: DescribeUserScramCredentialsResponse = await channel.request(request)
        error = response_error(response.error_code, "users", response.error_message)
        if error is not None:
            raise error
        return {
            each.user: response_error(each.error_code, f"user {each.user}", each.error_message)
            or {_NAMES.get(info.mechanism, str(info.mechanism)): info.iterations for info in each.credential_infos}
            for each in response.results
        }

    @returns_deferred
    async def alter_scram_users(
        self, passwords: Iterable[ScramPassword] = (), deletions: Iterable[tuple[str, str]] = ()
    ) -> dict[str, ApiError | None]:
        """
        Set passwords, which are salted and hashed here, and remove credentials.

        :param deletions: users and mechanisms.
        :return: by user; of the changes of one user all are made, or none.
        """
        request = AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=name, mechanism=_number(each)) for name, each in deletions],
            upsertions=[_salted(each) for each in passwords],
        )

        channel = await self._cluster.controller()
        response: AlterUserScramCredentialsResponse = await channel.request(request)
        return {
            each.user: response_error(each.error_code, f"user {each.user}", each.error_message)
            for each in response.results
        }


def _number(mechanism: str) -> int:
    if mechanism not in SCRAM_MECHANISMS:
        raise InvalidOption(f"{mechanism!r} is not a SCRAM mechanism; there are {', '.join(SCRAM_MECHANISMS)}")
    return SCRAM_MECHANISMS[mechanism]


def _salted(given: ScramPassword) -> ScramCredentialUpsertion:
    number, salt = _number(given.mechanism), salt_text(secrets.randbits(130))
    if not given.password:
        raise InvalidOption(f"the password of {given.user!r} is empty")
    return ScramCredentialUpsertion(
        name=given.user,
        mechanism=number,
        iterations=given.iterations,
        salt=salt,
        salted_password=salted_password(given.mechanism, given.password, salt, given.iterations),
    )
