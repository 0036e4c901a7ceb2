"""Every declared message, in every version, against kio and against a plain second codec."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.wire.declaration import MessageSpec
from logbus.wire.layout import message_layout
from logbus.wire.messages import api, api_keys, api_name
from logbus.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from logbus.wire.messages.transaction_log import TransactionLogKey, TransactionLogValue
from logbus.wire.schema import (
    Steps,
    decode,
    element_budget,
    encode,
    incremental_decoder,
    incremental_encoder,
    message_spec,
)
from tests.wire import kio_oracle, reference
from tests.wire.instances import messages

T = TypeVar("T")

EXAMPLES = max(5, settings.default.max_examples // 20)  # type: ignore[union-attr]
FEW = settings(max_examples=EXAMPLES)

#: What Kafka has given up, and kio with it: versions we keep for old clients. And what kio never had.
NOT_IN_KIO = {
    "ListOffsets": {0},
    "CreateTopics": {0, 1},
    "DeleteTopics": {0},
    "DescribeConfigs": {0},
    "DescribeLogDirs": {0},
    "OffsetForLeaderEpoch": {0, 1},
    "OffsetCommit": {0, 1},
    "OffsetFetch": {0},
    "WriteTxnMarkers": {0},
    # Ours.
    "Introduce": {1},
    "ProveIdentity": {0},
    "MetadataUpdate": {0},
    "AlterPartitions": {0},
    "ShutDown": {0},
    "ReportFailed": {0},
    "Forward": {0},
    "AskPlugin": {0},
    "ReportReplicas": {0},
    "ReportLogEnds": {0},
    # Of no API, and not for clients.
    "TransactionLogKey": {0},
    "TransactionLogValue": {0, 1},
}

#: Messages of no API: what members of groups tell each other, and records of ``__transaction_state``.
DATA = (ConsumerProtocolSubscription, ConsumerProtocolAssignment, TransactionLogKey, TransactionLogValue)

#: Tags that no message has, in order.
TAGS = st.lists(
    st.tuples(st.integers(100, 2**32 - 1), st.binary(max_size=200)), max_size=3, unique_by=lambda tag: tag[0]
).map(lambda tags: tuple(sorted(tags)))

DAMAGE = [
    b"",
    b"\xff",
    b"\0",
    b"\x80",
    b"\x7f",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
]


def declared() -> list[MessageSpec]:
    """Requests and responses of all APIs, and data inside them."""
    specs = [message_spec(cls) for key in sorted(api_keys()) for cls in (api(key).request, api(key).response)]
    return [*specs, *map(message_spec, DATA)]


def versions(spec: MessageSpec) -> range:
    """The versions of a message."""
    return range(spec.versions.min, spec.versions.max + 1)


def spelled(message: Any, version: int) -> bytes:
    """Our bytes for a message without slices of files."""
    parts = encode(message, version)
    assert [type(part) for part in parts] == [bytes]
    return bytes(parts[0])  # type: ignore[arg-type]


def finished(steps: Steps[T]) -> T:
    """What work in steps gives in the end."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


class MessageTests(SynchronousTestCase):
    """Each test runs through all versions of one message; there is one for each message."""

    def check_kio(self, spec: MessageSpec, version: int) -> None:
        """Our bytes are kio's bytes, kio reads from them what we meant, and so do we."""
        theirs = kio_oracle.kio_class(spec, version)
        if theirs is None:
            name = spec.cls.__name__ if spec.api_key is None else api_name(spec.api_key)
            self.assertIn(version, NOT_IN_KIO.get(name, set()))
            return
        layout = message_layout(spec, version)

        @FEW
        @given(messages(spec, version, kio_oracle.chooser(layout, theirs)))
        def agree(message: Any) -> None:
            entity = kio_oracle.to_kio(message, layout, theirs)
            data = spelled(message, version)
            self.assertEqual(data, kio_oracle.write(entity))
            self.assertEqual(kio_oracle.read(theirs, data), entity)
            self.assertEqual(decode(spec.cls, version, data), (message, len(data)))

        agree()

    def check_reference(self, spec: MessageSpec, version: int) -> None:
        """The second codec gives the same bytes; unknown tags anywhere are skipped; every kind of buffer is read."""
        layout = message_layout(spec, version)

        @FEW
        @given(messages(spec, version), st.sampled_from([bytes, bytearray, memoryview]), st.binary(max_size=3), TAGS)
        def agree(message: Any, buffer: Any, before: bytes, unknown: Any) -> None:
            data = spelled(message, version)
            self.assertEqual(data, reference.spell(message, layout))
            self.assertEqual(finished(incremental_encoder(spec.cls, version)(message)), [data])
            strange = before + reference.spell(message, layout, unknown)
            decoded: Any
            decoded, end = decode(spec.cls, version, buffer(strange + b"more"), len(before), 100_000)
            self.assertEqual((decoded, end), (message, len(strange)))
            steps = incremental_decoder(spec.cls, version)(buffer(strange + b"more"), len(before), 100_000)
            self.assertEqual(finished(steps), (message, len(strange)))

        agree()

    def check_damage(self, spec: MessageSpec, version: int) -> None:
        """Every truncation is refused; whatever else happens to the bytes, nothing but DecodeError is raised."""

        @FEW
        @given(messages(spec, version), st.integers(0, 2**32))
        def survive(message: Any, seed: int) -> None:
            random = Random(seed)
            data = spelled(message, version)
            for end in range(len(data)) if len(data) < 400 else random.sample(range(len(data)), 40):
                with self.assertRaises(DecodeError):
                    decode(spec.cls, version, data[:end])
            for _ in range(20):
                damaged = bytearray(data)
                for _ in range(random.randint(1, 4)):
                    at = random.randint(0, len(damaged))
                    damaged[at : at + random.randint(0, 4)] = random.choice(DAMAGE)
                try:
                    decode(spec.cls, version, random.choice([bytes, memoryview])(damaged))
                except DecodeError:
                    with self.assertRaises(DecodeError):
                        finished(
                            incremental_decoder(spec.cls, version)(damaged, 0, element_budget(len(damaged), 100_000))
                        )

        survive()


def _add(check: str, spec: MessageSpec) -> None:
    def test(self: MessageTests) -> None:
        for version in versions(spec):
            getattr(self, f"check_{check}")(spec, version)

    test.__name__ = f"test_{check}_{spec.cls.__name__}"
    test.__doc__ = f"{spec.cls.__name__}: {getattr(MessageTests, f'check_{check}').__doc__}"
    setattr(MessageTests, test.__name__, test)


for _spec in declared():
    for _check in ("kio", "reference", "damage"):
        _add(_check, _spec)
