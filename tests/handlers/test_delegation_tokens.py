"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.security.delegation_tokens import token_hmac
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    TokenPrincipal,
)
from tests.handlers.kit import NOW_MS, Client, HandlerCase

DAY = 86_400_000


def user(name: str, kind: str = "User") -> TokenPrincipal:
    return TokenPrincipal(principal_type=kind, principal_name=name)


class TokenCase(HandlerCase):
    config = {"delegation.token.secret.key": "secret"}

    def connect(self, name: str) -> Client:
        client = self.server.connect()
        client.protocol.context.principal = f"User:{name}"
        return client

    def setUp(self) -> None:
        super().setUp()
        self.ann = self.connect("ann")

    def create(
        self,
        client: Client | None = None,
        owner: str | None = None,
        *renewers: str,
        lifetime: int = -1,
        kind: str = "User",
    ) -> Any:
        message = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else kind,
            owner_principal_name=owner,
            renewers=[user(each) for each in renewers],
            max_lifetime_ms=lifetime,
        )
        return (client or self.ann).ask(message, 3)

    def renew(self, client: Client, code: bytes, period: int = -1) -> Any:
        return client.ask(RenewDelegationTokenRequest(hmac=code, renew_period_ms=period), 2)

    def expire(self, client: Client, code: bytes, period: int = -1) -> Any:
        return client.ask(ExpireDelegationTokenRequest(hmac=code, expiry_time_period_ms=period), 2)

    def describe(self, client: Client, *owners: TokenPrincipal, every: bool = True) -> Any:
        return client.ask(DescribeDelegationTokenRequest(owners=None if every else list(owners)), 3)


class DelegationTokenTests(TokenCase):
    """A broker with delegation.token.secret.key."""

    def test_life_of_a_token(self) -> None:
        """A token is created, described, renewed within its longest life, and ended."""
        made = self.create(None, None, "bob", lifetime=2 * DAY)
        self.assertEqual((made.error_code, made.principal_name, made.token_requester_principal_name), (0, "ann", "ann"))
        self.assertEqual(bytes(made.hmac), token_hmac(b"secret", made.token_id))
        self.assertEqual(made.issue_timestamp_ms // 1000, NOW_MS // 1000)
        self.assertEqual(made.expiry_timestamp_ms, made.issue_timestamp_ms + DAY)
        self.assertEqual(made.max_timestamp_ms, made.issue_timestamp_ms + 2 * DAY)
        (found,) = self.describe(self.ann).tokens
        self.assertEqual((found.token_id, bytes(found.hmac)), (made.token_id, bytes(made.hmac)))
        self.assertEqual([each.principal_name for each in found.renewers], ["bob"])
        bob = self.connect("bob")
        self.assertEqual(self.renew(bob, made.hmac, 10 * DAY).expiry_timestamp_ms, made.max_timestamp_ms)
        self.assertEqual(self.describe(self.ann).tokens[0].expiry_timestamp, made.max_timestamp_ms)
        soon = self.expire(bob, made.hmac, 1000).expiry_timestamp_ms
        self.assertLess(soon, made.expiry_timestamp_ms)
        self.assertEqual(self.expire(bob, made.hmac).error_code, 0)
        self.assertEqual(self.describe(self.ann).tokens, [])
        self.assertEqual(self.renew(self.ann, made.hmac).error_code, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def test_for_another(self) -> None:
        """A token may be asked for in another's name; both may renew it, and others may not."""
        made = self.create(self.ann, "cal")
        self.assertEqual((made.principal_name, made.token_requester_principal_name), ("cal", "ann"))
        for name, code in (("ann", 0), ("cal", 0), ("eve", ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)):
            self.assertEqual(self.renew(self.connect(name), made.hmac).error_code, code)
        self.assertEqual(self.expire(self.connect("eve"), made.hmac).error_code, 63)
        self.assertEqual(len(self.describe(self.ann, user("cal"), every=False).tokens), 1)
        self.assertEqual(len(self.describe(self.ann, user("eve"), every=False).tokens), 0)
        self.assertEqual(len(self.describe(self.ann, every=False).tokens), 0)

    def test_older_versions(self) -> None:
        """Before version 3 whoever asks is the owner."""
        for version in (1, 2):
            made = self.ann.ask(CreateDelegationTokenRequest(renewers=[]), version)
            self.assertEqual((made.error_code, made.principal_name), (0, "ann"))
            self.assertTrue(self.ann.ask(DescribeDelegationTokenRequest(), version).tokens)

    def test_expired(self) -> None:
        """A token that has ended cannot be renewed, and the controller removes it at the next look."""
        made = self.create(lifetime=1000)
        self.server.reactor.advance(2)
        self.assertEqual(self.renew(self.ann, made.hmac).error_code, ErrorCode.DELEGATION_TOKEN_EXPIRED)
        self.assertEqual(self.expire(self.ann, made.hmac, 5).error_code, ErrorCode.DELEGATION_TOKEN_EXPIRED)
        kept = self.create()
        self.server.reactor.advance(3600)
        self.server.reactor.advance(0)
        ann = self.connect("ann")
        self.assertEqual([each.token_id for each in self.describe(ann).tokens], [kept.token_id])

    def test_who_may_ask(self) -> None:
        """Neither a client that is nobody, nor one that has logged in by a token, may ask for anything."""
        by_token = self.connect("ann")
        by_token.protocol.context.by_delegation_token = True
        made = self.create()
        for client in (self.client, by_token):
            for answer in (
                self.create(client),
                self.renew(client, made.hmac),
                self.expire(client, made.hmac),
                self.describe(client),
            ):
                self.assertEqual(answer.error_code, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

    def test_wrong_requests(self) -> None:
        """Principals are users, and have names; renewers are few."""
        bad = ErrorCode.INVALID_PRINCIPAL_TYPE
        self.assertEqual(self.create(None, "x", kind="Group").error_code, bad)
        message = CreateDelegationTokenRequest(renewers=[user("x", "Group")])
        self.assertEqual(self.ann.ask(message, 3).error_code, bad)
        self.assertEqual(self.create(None, None, "").error_code, bad)
        self.assertEqual(self.create(None, "n" * 1025).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.create(None, "ANONYMOUS").error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.create(None, None, *map(str, range(101))).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.describe(self.ann).tokens, [])


class LimitTests(TokenCase):
    """A broker that lets each have two tokens, and all three."""

    config = {
        **TokenCase.config,
        "delegation.token.max.count.per.owner": "2",
        "delegation.token.max.count": "3",
    }

    def test_limits(self) -> None:
        """Tokens for others count for both; room comes back with the end of a token."""
        full = ErrorCode.POLICY_VIOLATION
        first = self.create()
        self.assertEqual([self.create(None, "cal").error_code, self.create(None, "dan").error_code], [0, full])
        eve = self.connect("eve")
        self.assertEqual([self.create(eve).error_code, self.create(eve).error_code], [0, full])
        self.assertEqual(self.expire(self.ann, first.hmac).error_code, 0)
        self.assertEqual([self.create().error_code, self.create().error_code], [0, full])


class DisabledTests(TokenCase):
    """A broker without a secret key."""

    config = {}

    def test_disabled(self) -> None:
        """Each request says that there are no tokens."""
        for answer in (
            self.create(),
            self.renew(self.ann, b"x"),
            self.expire(self.ann, b"x"),
            self.describe(self.ann),
        ):
            self.assertEqual(answer.error_code, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
