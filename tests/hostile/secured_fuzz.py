"""
Bent bytes against a broker that demands a login and asks an authorizer, in memory::

    python -m tests.hostile.secured_fuzz --inputs 1000000 [--seed 1]

An input is what one peer sends: a frame, or the frames of a login.  Rounds, each with a new broker, take turns:

strangers
    have not logged in.  Nothing but ApiVersions, SaslHandshake and SaslAuthenticate is answered, and bent tokens of
    PLAIN, SCRAM and OAUTHBEARER let nobody in.
the powerless
    have logged in, and have no rights.  They see none of what is kept from them, change nothing, and do not become
    somebody else by a second login.
administrators
    change users, ACLs, quotas and features.

After each round nothing is left of the connections, nothing has failed, and another client is served.  It prints the
figures of each hundred rounds, and ends with status 1 and the seed of the round if something was wrong.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import random
import resource
import struct
import sys
import time
import zlib
from base64 import b64encode, urlsafe_b64decode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from attrs import define, field
from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from logbus.ilogbus import Listener
from logbus.metastore.security_znodes import SECURITY_ROOTS
from logbus.metastore.znodes import DELEGATION_TOKENS
from logbus.records.file_slice import joined
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.oauthbearer import oauthbearer_message
from logbus.security.sasl.plain import plain_message
from logbus.security.sasl.scram_client import scram_exchange
from logbus.security.sasl.scram_credential import salted_password
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from logbus.wire.messages.user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from tests.handlers.kit import Client, MemoryBroker, a_batch, content
from tests.hostile.test_fuzz import INTERESTING, bend, corpus, mend
from tests.security.sasl.tokens import AUDIENCE, ISSUER, Issuer

SCRAM = "SCRAM-SHA-256"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
    "sasl.plain.allow.unencrypted": "true",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "delegation.token.secret.key": "of-tokens",
    "listener.name.secured.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_root="of-root" user_mallory="of-mallory";'
    ),
}
LISTENERS = (
    Listener("kafka", "kafka", "tcp:9092"),
    Listener("SECURED", "kafka", "tcp:9093", None, "SASL_PLAINTEXT"),
)
ROOT, MALLORY = plain_message("root", "of-root"), plain_message("mallory", "of-mallory")

BEFORE_LOGIN = frozenset({17, 18, 36})
OF_ADMINISTRATORS = frozenset({29, 30, 31, 38, 39, 40, 41, 48, 49, 50, 51, 57})

#: In all names and values that are kept from the powerless, and never sent by them.
MARK = b"kept-from-you"
#: The correlation id of what strangers ask, and must not be told.
PROBE = 0x0BE0BE0B
#: Longer than any session, transaction or delay.
QUIET_SECONDS = 2000
ROUND = 250


class Wrong(Exception):
    """The broker did what it must not."""


def demand(true: Any, what: str) -> None:
    if not true:
        raise Wrong(what)


@contextmanager
def failures() -> Iterator[list[str]]:
    """What is logged meanwhile as an error."""
    lines: list[str] = []

    @implementer(ILogObserver)
    def observe(event: Any) -> None:
        if event.get("log_level", LogLevel.debug) >= LogLevel.error:
            failure = event.get("log_failure")
            lines.append(formatEvent(event) + ("" if failure is None else f"\n{failure.getTraceback()}"))

    globalLogPublisher.addObserver(observe)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observe)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def frame_of(message: Any, version: int) -> bytes:
    """A request, without its length."""
    return joined(ClientConnection("bent").request(message, version)[1])[4:]


def probe() -> bytes:
    frame = bytearray(frame_of(MetadataRequest(topics=None), 9))
    struct.pack_into(">i", frame, 4, PROBE)
    return framed(bytes(frame))


_PROBE = probe()


@cache
def salted(password: str, salt: bytes, iterations: int) -> bytes:
    return salted_password(SCRAM, password, salt, iterations)


@cache
def json_web_token() -> tuple[str, str]:
    """A token of root's that is valid, and the URL of the keys of its issuer."""
    issuer = Issuer()
    with NamedTemporaryFile(delete=False, suffix=".json") as keys:
        keys.write(issuer.jwks)
    atexit.register(Path(keys.name).unlink)
    return issuer.token(sub="root"), Path(keys.name).as_uri()


def parts_of(token: bytes) -> list[bytes]:
    """What a JSON web token says: several texts may say the same."""
    return [urlsafe_b64decode(part + b"==") for part in token.split(b".")]


@define(eq=False)
class Round:
    """
    One broker, and what is sent to it.

    :ivar config: more settings of the broker.
    :ivar token: a delegation token of root's.
    :ivar sent: counts the inputs, by kind.
    """

    seed: int
    sent: Counter[str] = field(factory=Counter)
    config: Mapping[str, str] = field(factory=dict)
    draw: random.Random = field(init=False)
    server: MemoryBroker = field(init=False)
    token: CreateDelegationTokenResponse = field(init=False)
    _before: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.server = MemoryBroker(
            {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": json_web_token()[1], **self.config}, listeners=LISTENERS
        ).start()
        self.server.create("t", 3)
        self.server.create(f"topic-{MARK.decode()}")
        root = self.server.connect()
        for topic in ("t", f"topic-{MARK.decode()}"):
            root.produce(a_batch(b"record-" + MARK), topic)
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=MARK.decode())
        group = OffsetCommitRequest(
            group_id=f"group-{MARK.decode()}", topics=[OffsetCommitRequestTopic(name="t", partitions=[offset])]
        )
        root.ask(group, 8)
        for user in ("root", f"user-{MARK.decode()}"):
            credential = ScramCredentialUpsertion(
                name=user,
                mechanism=1,
                iterations=4096,
                salt=b"salt",
                salted_password=salted("of-root", b"salt", 4096),
            )
            root.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential]), 0)
        root.transport.loseConnection()
        root = self._log_in(ROOT)
        self.token = root.ask(CreateDelegationTokenRequest(renewers=[]), 3)
        demand(self.token.error_code == 0, "there is no token")
        root.transport.loseConnection()
        self._before = self.state()

    def run(self, kind: str, inputs: int) -> None:
        with failures() as failed:
            try:
                getattr(self, kind)(inputs)
                self.check(kind)
            finally:
                self.server.close()
            demand(not failed, "it logged:\n" + "\n".join(failed[:3]))

    # What is sent.

    def bent(self, frame: bytes, most: int = 3) -> bytes:
        draw = self.draw
        for _ in range(draw.randrange(most + 1)):
            what = draw.choice(INTERESTING) if draw.random() < 0.5 else draw.randbytes(draw.randrange(7))
            frame = bend(frame, (draw.choice((0, 0, 0, 1, 2, 3, 4)), draw.random(), what))
        return mend(frame) if draw.random() < 0.3 else frame

    def of_corpus(self, keys: Sequence[int]) -> bytes:
        if self.draw.random() < 0.05:
            secret = self.token.hmac
            return frame_of(
                self.draw.choice(
                    (
                        RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1000),
                        ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1),
                    )
                ),
                self.draw.choice((1, 2)),
            )
        return self.draw.choice(corpus()[self.draw.choice(keys)])[4:]

    def strangers(self, inputs: int) -> None:
        every = sorted(corpus())
        ways = (
            *(self._any_request, self._any_request, self._plain, self._plain_bare),
            *(self._scram, self._oauthbearer, self._noise),
        )
        for _ in range(inputs):
            client = self.server.connect(listener="SECURED")
            way = self.draw.choice(ways)
            self.sent[way.__name__.strip("_")] += 1
            allowed = way(client, every)
            client.feed(_PROBE)
            self._settle(client)
            self._check_stranger(client, allowed)
            client.transport.loseConnection()

    def _any_request(self, client: Client, every: Sequence[int]) -> bool:
        client.feed(framed(self.bent(self.of_corpus(every))))
        return False

    def _plain(self, client: Client, _: object) -> bool:
        client.feed(framed(self.bent(frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1), 1)))
        token = self.bent(self.draw.choice((ROOT, MALLORY)))
        whole = frame_of(SaslAuthenticateRequest(auth_bytes=token), self.draw.randrange(3))
        frame = self.bent(whole, 1)
        client.feed(framed(frame))
        # Bending may leave a token whole, as it may a frame.
        return any(right in frame for right in RIGHT)

    def _plain_bare(self, client: Client, _: object) -> bool:
        client.feed(framed(frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 0)))
        token = self.bent(ROOT)
        client.feed(framed(token))
        return token in RIGHT

    def _scram(self, client: Client, _: object) -> bool:
        """One of the two messages is bent, so that the proof is for another exchange."""
        client.ask(SaslHandshakeRequest(mechanism=SCRAM), 1)
        nonce = f"{self.draw.getrandbits(60):x}"
        exchange = scram_exchange(SCRAM, "root", "of-root", nonce)
        if self.draw.random() < 0.3:
            password = b64encode(self.token.hmac).decode()
            exchange = scram_exchange(SCRAM, self.token.token_id, password, nonce, {"tokenauth": "true"})
        first = next(exchange)
        bent = self.bent(first) if self.draw.random() < 0.5 else first
        client.send(SaslAuthenticateRequest(auth_bytes=bent), 2)
        answers = self._answers(client)
        if not answers or answers[-1].error_code or not answers[-1].auth_bytes:
            return False
        try:
            final = exchange.send(answers[-1].auth_bytes)
        except (SaslAuthenticationError, ValueError):
            return False
        sent = self.bent(final) if bent == first else final
        client.send(SaslAuthenticateRequest(auth_bytes=sent), 2)
        return bent == first and sent == final

    def _oauthbearer(self, client: Client, _: object) -> bool:
        """A signed token, of which any part is bent, or the message around it."""
        client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        token = json_web_token()[0].encode()
        parts = token.split(b".")
        at = self.draw.randrange(len(parts) + 1)
        if at < len(parts):
            parts[at] = self.bent(parts[at])
        message = oauthbearer_message("TOKEN").replace(b"TOKEN", b".".join(parts))
        if at == len(parts):
            message = self.bent(message)
        client.send(SaslAuthenticateRequest(auth_bytes=message), 2)
        if message == oauthbearer_message(token.decode()):
            client.turn()
            demand(client.protocol.context.principal == "User:root", "a token that is valid is refused")
        try:
            return token in message or parts_of(b".".join(parts)) == parts_of(token)
        except ValueError:
            return False

    def _noise(self, client: Client, _: object) -> bool:
        data = b"".join(self.draw.choice((*INTERESTING, self.draw.randbytes(8))) for _ in range(9))
        if self.draw.random() < 0.7:
            data = framed(data)
        at = self.draw.randrange(len(data))
        client.feed(data[:at])
        client.feed(data[at:])
        return False

    def powerless(self, inputs: int) -> None:
        self._logged_in("powerless", MALLORY, sorted(corpus().keys() - BEFORE_LOGIN), inputs)

    def administrators(self, inputs: int) -> None:
        self._logged_in("administrators", ROOT, sorted(corpus().keys() & OF_ADMINISTRATORS), inputs)

    def _logged_in(self, kind: str, token: bytes, keys: Sequence[int], inputs: int) -> None:
        powerless = token is MALLORY
        client = self._log_in(token)
        for _ in range(inputs):
            self.sent[kind] += 1
            if client.closed or client.transport.disconnecting:
                client.transport.loseConnection()
                client = self._log_in(token)
            principal = client.protocol.context.principal
            if self.draw.random() < 0.05:
                client.feed(framed(frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1)))
                again = self.bent(self.draw.choice((ROOT, MALLORY)))
                client.feed(framed(frame_of(SaslAuthenticateRequest(auth_bytes=again), 2)))
            else:
                client.feed(framed(self.bent(self.of_corpus(keys))))
            self._settle(client)
            demand(client.protocol.context.principal == principal, "a connection belongs to somebody else now")
            if powerless:
                for frame in client.frames():
                    demand(MARK not in frame, f"the powerless see {frame!r}")
            else:
                client.transport.clear()
        client.transport.loseConnection()

    def _log_in(self, token: bytes) -> Client:
        client = self.server.connect(listener="SECURED")
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
        demand(answer.error_code == 0, "a client cannot log in any more")
        return client

    def _settle(self, client: Client) -> None:
        client.turn()
        if client.protocol.dispatcher.order.waiting:
            client.turn(0.1)
            if client.protocol.dispatcher.order.waiting:
                client.transport.loseConnection()

    # What is checked.

    def _answers(self, client: Client) -> list[Any]:
        client.turn()
        found = [client.wire.receive(frame)[1] for frame in client.frames()]
        return [each for each in found if hasattr(each, "auth_bytes")]

    def _check_stranger(self, client: Client, allowed: bool) -> None:
        data: bytes = client.transport.value()
        client.transport.clear()
        if allowed:
            return
        demand(MARK not in data, f"strangers see {data!r}")
        demand(struct.pack(">i", PROBE) not in data[4:8], "strangers are served")
        at = 0
        while at + 8 <= len(data):
            length, correlation_id = struct.unpack_from(">ii", data, at)
            demand(correlation_id != PROBE or length < 4, "strangers are served")
            at += 4 + length
        principal = client.protocol.context.principal
        demand(principal == "User:ANONYMOUS", f"a bent login made a client {principal}")

    def state(self) -> Any:
        """What only those with rights may change."""
        broker = self.server.broker
        nodes = broker.member.metadata.security_nodes
        return (
            sorted(
                (path, data)
                for root in SECURITY_ROOTS
                for path, data in nodes.items(root)
                # Everybody may have tokens.
                if root != DELEGATION_TOKENS or b"User:mallory" not in data
            ),
            sorted((str(replica), replica.high_watermark) for replica in self._replicas()),
            sorted(group.group_id for group in broker.coordinators.groups.groups()),
            len(list(broker.coordinators.transactions.transactions())),
        )

    def _replicas(self) -> list[Any]:
        return list(self.server.broker.replication.replicas)

    def check(self, kind: str) -> None:
        """Nothing is left, nothing has changed but by administrators, and others are served."""
        server = self.server
        server.reactor.advance(1)
        metrics = server.broker.kafka_server.net_metrics
        left = (metrics.requests_pending, metrics.connections_open, server.broker.kafka_server.connections.budget.used)
        demand(left == (0, 0, 0), f"requests, connections and bytes are left: {left}")
        demand(metrics.failures == 0, f"{metrics.failures} requests failed")
        demand(not server.lost, f"the broker gave up: {server.lost}")
        demand(not len(server.broker.replication.purgatory), "requests wait for ever")
        if kind != "administrators":
            demand(self.state() == self._before, f"changed: {self._before} to {self.state()}")
        canary = server.connect()
        server.create("canary")
        demand(canary.produce(a_batch(b"still"), "canary").error_code == 0, "the canary cannot write")
        demand(b"still" in content(canary.fetch(0, "canary")), "the canary cannot read")
        canary.transport.loseConnection()
        for _ in range(QUIET_SECONDS // 100):
            server.reactor.advance(100)
        demand(len(server.reactor.getDelayedCalls()) < 100, "timers are left")


#: Tokens with which one may log in.
RIGHT = tuple(
    b"\0".join((authzid, user, password))
    for user, password in ((b"root", b"of-root"), (b"mallory", b"of-mallory"))
    for authzid in (b"", user)
)
KINDS = ("strangers", "powerless", "strangers", "powerless", "administrators")


def run(inputs: int, seed: int, say: Any = lambda line: None) -> Counter[str]:
    """
    Send that many inputs.

    :raises Wrong: names the round.
    """
    sent: Counter[str] = Counter()
    number = 0
    began = time.monotonic()
    while (done := sent.total()) < inputs:
        kind = KINDS[number % len(KINDS)]
        one = zlib.crc32(f"{seed}/{number}".encode())
        try:
            Round(one, sent).run(kind, min(ROUND, inputs - done))
        except Exception as e:
            raise Wrong(f"round {number} of seed {seed} ({kind}, {one}): {type(e).__name__}: {e}") from e
        number += 1
        if not number % 100:
            gc.collect()
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20
            seconds = time.monotonic() - began
            say(f"{sent.total():8} inputs in {number} rounds, {seconds:5.0f} s, {resident} MiB resident: {dict(sent)}")
    return sent


def main() -> None:
    """Run, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        sent = run(options.inputs, options.seed, lambda line: print(line, flush=True))
    except Wrong as e:
        sys.exit(str(e))
    print(f"{sent.total()} inputs, nothing wrong: {dict(sent)}")


if __name__ == "__main__":
    main()
