"""The admin client's part for delegation tokens."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.token_admin import DelegationToken, TokenAdmin
from logbus.client.validators import InvalidOption
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
    TokenPrincipal,
)

TOKEN = DelegationToken("id", "aG1hYw==", "User:ann", "User:root", ("User:bob",), 1, 2, 3)


@define
class FakeCluster:
    """Answers all requests alike."""

    answer: Any
    asked: list[Any] = field(factory=list)

    @returns_deferred
    async def controller(self) -> FakeCluster:
        return self

    any_channel = controller

    @returns_deferred
    async def request(self, message: Any) -> Any:
        self.asked.append(message)
        return self.answer


class TokenAdminTests(SynchronousTestCase):
    """Each request, and what comes of its response."""

    def admin(self, answer: Any) -> TokenAdmin:
        self.cluster = FakeCluster(answer)
        admin = TokenAdmin()
        admin._cluster = self.cluster  # type: ignore[assignment]
        return admin

    def test_create(self) -> None:
        """A token for another, with renewers; its text has no password."""
        admin = self.admin(
            CreateDelegationTokenResponse(
                principal_type="User",
                principal_name="ann",
                token_requester_principal_type="User",
                token_requester_principal_name="root",
                issue_timestamp_ms=1,
                expiry_timestamp_ms=2,
                max_timestamp_ms=3,
                token_id="id",
                hmac=b"hmac",
            )
        )
        made = self.successResultOf(
            admin.create_delegation_token(owner="User:ann", renewers=["User:bob"], max_lifetime_ms=9)
        )
        self.assertEqual(made, TOKEN)
        self.assertNotIn(TOKEN.password, repr(made))
        (asked,) = self.cluster.asked
        self.assertEqual((asked.owner_principal_name, asked.max_lifetime_ms), ("ann", 9))
        self.assertEqual(asked.renewers, [TokenPrincipal(principal_type="User", principal_name="bob")])
        for wrong in ("ann", ":ann", "User:"):
            self.failureResultOf(admin.create_delegation_token(owner=wrong), InvalidOption)

    def test_renew_and_expire(self) -> None:
        """They say when the token ends; what is no password is not repeated."""
        renewing = self.admin(RenewDelegationTokenResponse(expiry_timestamp_ms=7))
        self.assertEqual(self.successResultOf(renewing.renew_delegation_token(TOKEN.password, 5)), 7)
        self.assertEqual((self.cluster.asked[0].hmac, self.cluster.asked[0].renew_period_ms), (b"hmac", 5))
        ending = self.admin(ExpireDelegationTokenResponse(expiry_timestamp_ms=8))
        self.assertEqual(self.successResultOf(ending.expire_delegation_token(TOKEN.password)), 8)
        self.assertEqual(self.cluster.asked[0].expiry_time_period_ms, -1)
        failure = self.failureResultOf(ending.expire_delegation_token("s!cret"), InvalidOption)
        self.assertNotIn("s!cret", str(failure.value))

    def test_describe(self) -> None:
        """The tokens of some principals."""
        admin = self.admin(
            DescribeDelegationTokenResponse(
                tokens=[
                    DescribedDelegationToken(
                        principal_type="User",
                        principal_name="ann",
                        token_requester_principal_type="User",
                        token_requester_principal_name="root",
                        issue_timestamp=1,
                        expiry_timestamp=2,
                        max_timestamp=3,
                        token_id="id",
                        hmac=b"hmac",
                        renewers=[TokenPrincipal(principal_type="User", principal_name="bob")],
                    )
                ]
            )
        )
        self.assertEqual(self.successResultOf(admin.describe_delegation_tokens(["User:ann"])), [TOKEN])
        self.successResultOf(admin.describe_delegation_tokens())
        self.assertEqual([each.owners is None for each in self.cluster.asked], [False, True])

    def test_refused(self) -> None:
        """An error code is an error."""
        admin = self.admin(CreateDelegationTokenResponse(error_code=61))
        failure = self.failureResultOf(admin.create_delegation_token(), ApiError)
        self.assertEqual(failure.value.code, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
