"""
DescribeUserScramCredentials, AlterUserScramCredentials: users that log in by SCRAM (KIP-554).

Clients send salted passwords; what is stored proves a password, but is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from attrs import define, field

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.security_admin import SecurityAdmin
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.metastore.security_znodes import USER, EntityZnode
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import USER_CONFIGS
from logbus.net.request_context import ChangeTerms, RequestContext
from logbus.security.sasl.scram_credential import ScramCredential
from logbus.wire.connection import Request
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

MECHANISMS: Mapping[int, str] = MappingProxyType({1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"})
"""Mechanisms by their numbers in requests (Kafka: ScramMechanism)."""

KEY_BYTES: Mapping[str, int] = MappingProxyType({"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64})
"""Lengths of salted passwords."""

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""Of new credentials, as in Kafka."""

UNITS_TO_ALTER = 20
"""Units of a time slice that it takes to alter a user."""


@define(eq=False)
class UserScramCredentialsHandlers:
    """Describes and alters the SCRAM credentials of users."""

    _metadata: ClusterMetadata
    _admin: SecurityAdmin

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.metadata, broker.security_admin)

    @serves(50, 0, 0, waits_for_metadata=True)
    @task
    async def describe(self, context: RequestContext, request: Request) -> DescribeUserScramCredentialsResponse:
        message: DescribeUserScramCredentialsRequest = request.message
        time_slice = context.time_slice(request)
        results: list[DescribeUserScramCredentialsResult] = []
        if not message.users:
            async for path, data in time_slice.over(list(self._metadata.security_nodes.items(USER_CONFIGS)), 4):
                try:
                    entity = EntityZnode.entity(path)
                    name = entity[USER]
                    if name is not None and len(entity) == 1 and (infos := _infos(path, data)):
                        results.append(DescribeUserScramCredentialsResult(user=name, credential_infos=infos))
                except BadZnode as e:
                    error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e))
                    results.append(_undescribed(path.rpartition("/")[2], error))
            return DescribeUserScramCredentialsResponse(results=sorted(results, key=lambda result: result.user))
        duplicates = await time_slice.duplicates(user.name for user in message.users)
        async for name in time_slice.over(dict.fromkeys(user.name for user in message.users), 4):
            try:
                if name in duplicates:
                    raise ApiError(ErrorCode.DUPLICATE_RESOURCE, f"the request names the user {name!r} twice")
                results.append(DescribeUserScramCredentialsResult(user=name, credential_infos=self._described(name)))
            except ApiError as e:
                results.append(_undescribed(name, e))
        return DescribeUserScramCredentialsResponse(results=results)

    def _described(self, name: str) -> list[CredentialInfo]:
        path = EntityZnode.path({USER: name}) if name else None
        try:
            infos = _infos(path, self._metadata.security_nodes.get(path)) if path else []
        except BadZnode as e:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from None
        if not infos:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name!r} with SCRAM credentials")
        return infos

    @serves(51, 0, 0, forwarded=True)
    @task
    async def alter(self, context: RequestContext, request: Request) -> AlterUserScramCredentialsResponse:
        message: AlterUserScramCredentialsRequest = request.message
        time_slice = context.time_slice(request)
        users: dict[str, _Alteration] = {}
        async for deletion in time_slice.over(message.deletions):
            users.setdefault(deletion.name, _Alteration(deletion.name, context.terms)).add(deletion.mechanism, None)
        async for upsertion in time_slice.over(message.upsertions, UNITS_TO_ALTER):
            altered = users.setdefault(upsertion.name, _Alteration(upsertion.name, context.terms))
            altered.add(upsertion.mechanism, upsertion)
        valid = {EntityZnode.path({USER: name}): one for name, one in users.items() if one.error is None}
        try:
            edits = {path: one.edit for path, one in valid.items()}
            outcomes = await self._admin.change_all(edits, validate_only=context.terms.validate_only) if valid else {}
        except ApiError as e:
            outcomes = dict.fromkeys(valid, e)
        for path, error in outcomes.items():
            valid[path].error = error
        return AlterUserScramCredentialsResponse(results=[one.result() for one in users.values()])


@define(eq=False)
class _Alteration:
    """
    The changes of one user, of which all are made or none.

    :ivar changes: new credentials by mechanism, as they are stored; None: remove it.
    """

    name: str
    terms: ChangeTerms
    error: ApiError | None = None
    changes: dict[str, str | None] = field(factory=dict, repr=False)

    def add(self, number: int, upsertion: ScramCredentialUpsertion | None) -> None:
        """Add a change; after an invalid one, all of the user's are refused."""
        try:
            mechanism = _mechanism(self.name, number)
            if mechanism in self.changes:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"{mechanism} of the user {self.name!r} is altered twice in one request",
                )
            self.changes[mechanism] = None if upsertion is None else _credential(mechanism, upsertion)
        except ApiError as e:
            self.error = self.error or e.without_frames()

    def edit(self, data: bytes | None) -> bytes | None:
        """The node with the changes."""
        path = EntityZnode.path({USER: self.name})
        try:
            settings = EntityZnode.decode(path, data)
        except BadZnode as e:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from None
        self.terms.check(settings)
        for mechanism, text in self.changes.items():
            if text is not None:
                settings[mechanism] = text
            elif settings.pop(mechanism, None) is None:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {self.name!r} with credentials for {mechanism}"
                )
        return EntityZnode.encode(settings)

    def result(self) -> AlterUserScramCredentialsResult:
        """The outcome."""
        result = AlterUserScramCredentialsResult(user=self.name)
        if self.error is not None:
            result.error_code, result.error_message = self.error.code, self.error.message
        return result


def _mechanism(user: str, number: int) -> str:
    if not user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of the user is empty")
    mechanism = MECHANISMS.get(number)
    if mechanism is None:
        known = ", ".join(f"{name} ({each})" for each, name in MECHANISMS.items())
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {number}; there are {known}")
    return mechanism


def _credential(mechanism: str, given: ScramCredentialUpsertion) -> str:
    if not MIN_ITERATIONS <= given.iterations <= MAX_ITERATIONS:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{given.iterations} iterations for {given.name!r}; {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed",
        )
    salted, salt = bytes(given.salted_password), bytes(given.salt)
    if not salt:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the salt for {given.name!r} is empty")
    if len(salted) != KEY_BYTES[mechanism]:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"the salted password for {given.name!r} has {len(salted)} bytes; {mechanism} makes {KEY_BYTES[mechanism]}",
        )
    return ScramCredential.from_salted(mechanism, salted, salt, given.iterations).encode()


def _infos(path: str, data: bytes | None) -> list[CredentialInfo]:
    """
    :raise BadZnode: the node cannot be read.
    """
    settings = EntityZnode.decode(path, data)
    try:
        return [
            CredentialInfo(mechanism=number, iterations=ScramCredential.decode(settings[mechanism]).iterations)
            for number, mechanism in MECHANISMS.items()
            if mechanism in settings
        ]
    except ValueError as e:
        raise BadZnode(f"{path} holds {e}") from None


def _undescribed(name: str, error: ApiError) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=error.code, error_message=error.message, credential_infos=[]
    )
