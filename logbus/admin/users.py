"""
Views of users that log in by SCRAM: list them, set a password, delete one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import IN_QUERY, VALIDATE_ONLY, controller_of_terms, is_only_checked, terms_of
from logbus.admin.entity_tags import CONDITION, ETAG, Precondition, entity_tag
from logbus.admin.json_schema import array, integer, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import JSON, ViewRequest, ViewResponse, route
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ErrorCode, error_of
from logbus.metastore.security_znodes import USER as USER_ENTITY
from logbus.metastore.security_znodes import EntityZnode
from logbus.security.acl.acls import AclOperation
from logbus.security.sasl.scram_credential import MIN_ITERATIONS, ScramCredential, salt_text, salted_password
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

VERSION = 0
MAX_USERS = 500
"""Users of an answer."""

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Their numbers in requests."""

USER_NAME = string("The user's name, without User:.", minLength=1, maxLength=1000)
MECHANISM = string("A mechanism.", enum=list(MECHANISMS))
USER = object_schema(
    "A user, without anything of its passwords.",
    name=USER_NAME,
    mechanisms=array(
        "By which the user can log in.",
        object_schema(
            "A mechanism.",
            mechanism=string("Its name."),
            iterations=integer("How often the password was hashed."),
        ),
    ),
)
USERS = object_schema(
    "Users.",
    items=array("By name.", USER, maxItems=MAX_USERS),
    total=integer("How many users there are."),
)
PASSWORD = object_schema(
    "A user's new password.",
    password=string("The password; it is hashed here, and not kept.", minLength=1, maxLength=1000),
    mechanisms={
        **array("For which it is; others keep theirs.", MECHANISM, minItems=1, maxItems=2),
        "default": list(MECHANISMS),
    },
    iterations={
        **integer("How often it is hashed.", minimum=MIN_ITERATIONS, maximum=16384),
        "default": MIN_ITERATIONS,
    },
    validate_only=VALIDATE_ONLY,
    optional=("mechanisms", "iterations", "validate_only"),
)
ERRORS = (HTTPStatus.SERVICE_UNAVAILABLE,)


@frozen
class UserViews:
    """Lists and changes users, by the requests of Kafka's administrators (KIP-554)."""

    metadata: ClusterMetadata
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/users",
        "Users that log in by SCRAM",
        answer=USERS,
        right=Right(AclOperation.DESCRIBE),
        errors=ERRORS,
    )
    def list(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._list(call.access))

    async def _list(self, access: HttpAccess) -> dict[str, Any]:
        results = await self._described(access, None)
        items = [_shown(each) for each in results[:MAX_USERS] if not each.error_code]
        return {"items": items, "total": len(results)}

    @route(
        "GET",
        "/api/v1/users/{user}",
        "A user that logs in by SCRAM",
        answer=USER,
        answer_headers=ETAG,
        parameters={"user": USER_NAME},
        right=Right(AclOperation.DESCRIBE),
        errors=(HTTPStatus.NOT_FOUND, *ERRORS),
    )
    def one(self, call: ViewRequest) -> Deferred[ViewResponse]:
        return Deferred.fromCoroutine(self._one(call.access, call.path["user"]))

    async def _one(self, access: HttpAccess, user: str) -> ViewResponse:
        found = await self._existing(access, user)
        headers = {"ETag": entity_tag(self._credentials(user))}
        return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(_shown(found)), headers)

    @route(
        "PUT",
        "/api/v1/users/{user}",
        "Add a user, or change a password: 201 if there was no such user, else 204",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        other_answers={HTTPStatus.CREATED: None},
        parameters={"user": USER_NAME},
        body=PASSWORD,
        headers=CONDITION,
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.PRECONDITION_FAILED, *ERRORS),
    )
    def put(self, call: ViewRequest) -> Deferred[ViewResponse]:
        return Deferred.fromCoroutine(self._put(call, call.path["user"], call.body))

    async def _put(self, call: ViewRequest, user: str, body: Mapping[str, Any]) -> ViewResponse:
        password, iterations = body["password"], body.get("iterations", MIN_ITERATIONS)
        try:
            password.encode()
        except UnicodeEncodeError:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, "The body.password has half of a surrogate pair.") from None
        upsertions = []
        for mechanism in body.get("mechanisms", MECHANISMS):
            salt = salt_text(secrets.randbits(130))
            salted = salted_password(mechanism, password, salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=MECHANISMS[mechanism],
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        is_new = not self._credentials(user)
        await self._alter(call, user, [], upsertions)
        if is_only_checked(call) or not is_new:
            return ViewResponse(HTTPStatus.NO_CONTENT, "")
        return ViewResponse(HTTPStatus.CREATED, "", headers={"Location": f"/api/v1/users/{quote(user, safe='')}"})

    @route(
        "DELETE",
        "/api/v1/users/{user}",
        "Delete a user: nobody can log in by SCRAM under this name any more",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        parameters={"user": USER_NAME, **IN_QUERY},
        headers=CONDITION,
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED, *ERRORS),
    )
    def delete(self, call: ViewRequest) -> Deferred[None]:
        return Deferred.fromCoroutine(self._delete(call, call.path["user"]))

    async def _delete(self, call: ViewRequest, user: str) -> None:
        found = await self._existing(call.access, user)
        deletions = [ScramCredentialDeletion(name=user, mechanism=info.mechanism) for info in found.credential_infos]
        await self._alter(call, user, deletions, [])

    async def _existing(self, access: HttpAccess, user: str) -> Any:
        (found,) = await self._described(access, user)
        if found.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"There is no user {user!r} that logs in by SCRAM.")
        if found.error_code:
            raise error_of(found.error_code, found.error_message)
        return found

    def _credentials(self, user: str) -> dict[str, Any]:
        """Return what tells a user's credentials from others, and is no secret."""
        path = EntityZnode.path({USER_ENTITY: user})
        return _public(EntityZnode.decode(path, self.metadata.security_nodes.get(path)))

    async def _described(self, access: HttpAccess, user: str | None) -> Sequence[Any]:
        request = DescribeUserScramCredentialsRequest(users=None)
        if user is not None:
            request = DescribeUserScramCredentialsRequest(users=[UserName(name=user)])
        response: DescribeUserScramCredentialsResponse = await self.requests.send(access, request, VERSION)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return response.results

    async def _alter(
        self,
        call: ViewRequest,
        user: str,
        deletions: Sequence[ScramCredentialDeletion],
        upsertions: Sequence[ScramCredentialUpsertion],
    ) -> None:
        request = AlterUserScramCredentialsRequest(deletions=[*deletions], upsertions=[*upsertions])
        condition = Precondition(f"The user {user!r}", call.headers, MECHANISMS, members_of=_public)
        terms = terms_of(call, condition)
        response: AlterUserScramCredentialsResponse = await self.requests.send(call.access, request, VERSION, terms)
        for result in response.results:
            if result.error_code:
                raise condition.refusal(error_of(result.error_code, result.error_message))


def _shown(result: Any) -> dict[str, Any]:
    names = {number: name for name, number in MECHANISMS.items()}
    return {
        "name": result.user,
        "mechanisms": [
            {"mechanism": names.get(info.mechanism, str(info.mechanism)), "iterations": info.iterations}
            for info in result.credential_infos
        ],
    }


def _public(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what tells a user's credentials from others; salts are shown to whoever begins to log in."""
    found = {}
    for mechanism in MECHANISMS:
        if mechanism in settings:
            credential = ScramCredential.decode(settings[mechanism])
            found[mechanism] = [credential.iterations, credential.salt.hex()]
    return found
