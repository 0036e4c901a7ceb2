"""Tests that every client reads what any client wrote: in order, byte for byte."""

from __future__ import annotations

import random

import pytest

from logbus.records.batch import iter_batches
from logbus.records.compression import Codec
from logbus.records.header import read_header
from logbus.testing import Broker
from tests.interop.clients import CLIENTS, CODECS, Client, Message, log_files

MEGABYTE = 1_000_000
_NOISE = random.Random(11).randbytes(MEGABYTE)


def corpus(client: Client) -> list[Message]:
    """One message of each kind that this client can send."""
    messages = [
        Message(b"plain"),
        Message(b"with a key", b"key"),
        Message(None, b"deleted"),
        Message(b"", b"empty value"),
        Message(bytes(range(256)) * 2, b"\xff\xfe\x01 \xc3\x28"),
        Message("Größe 漢字 🚌".encode(), "schlüssel".encode()),
        Message(b"one header", b"h", (("trace", b"\xfe\xff\x01"),)),
        Message(b"headers", b"h", (("a", b"1"), ("b", b"two"), ("a", b"again"), ("größe", b"x"))),
        Message(b"z" * MEGABYTE, b"squeezable"),
        Message(_NOISE, b"noise"),
        Message(b"last"),
    ]
    if "null header" not in client.cannot:
        messages.append(Message(b"null and empty header", b"h", (("empty", b""), ("null", None))))
    if "empty key" not in client.cannot:
        messages.append(Message(b"empty key", b""))
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_its_records(broker: Broker, topic: str, client: Client, codec: str) -> None:
    """Keys, headers, tombstones, empty and 1 MB records come back to every client as they were."""
    sent = corpus(client)
    client.produce(broker.bootstrap, topic, sent, codec=codec)
    for reader in CLIENTS:
        found = reader.fetch(broker.bootstrap, topic, len(sent))
        assert found == sent, f"{reader.name} read something else"
        assert [message.offset for message in found] == list(range(len(sent)))
    codecs = {Codec(header.codec).name.lower() for _, header in iter_batches(log_files(broker.data_dir, topic))}
    # Clients leave a batch as it is if compressing does not make it smaller.
    assert codecs <= {codec, "none"}
    assert codec in codecs


@pytest.mark.parametrize("codec", CODECS)
def test_small_messages_in_many_batches(broker: Broker, topic: str, library: Client, codec: str) -> None:
    """Batches of many records are read from their middle, and on over their ends."""
    sent = [Message(b"%d " % number * 20, b"k%d" % number) for number in range(2_000)]
    library.produce(broker.bootstrap, topic, sent[:1_100], codec=codec)
    library.produce(broker.bootstrap, topic, sent[1_100:], codec=codec)
    for reader in CLIENTS:
        assert reader.fetch(broker.bootstrap, topic, 1_663, offset=337) == sent[337:]


def test_idempotent_producer(broker: Broker, topic: str, client: Client) -> None:
    """An idempotent producer's messages arrive once each, in order, with its id on the batches."""
    sent = [Message(b"%d" % number) for number in range(10 if client.name == "kcat" else 3_000)]
    client.produce(broker.bootstrap, topic, sent, idempotent=True)
    assert CLIENTS[0].fetch(broker.bootstrap, topic, len(sent)) == sent
    header = read_header(log_files(broker.data_dir, topic))
    assert header.producer_id >= 0
    assert (header.producer_epoch, header.base_sequence) == (0, 0)
