"""Tests common options of kcat, and the older librdkafka that it uses."""

from __future__ import annotations

import json

import pytest

from logbus.testing import Broker
from tests.interop.clients import CLIENTS, CODECS, KcatFailed, Message, kcat
from tests.interop.test_offsets import START, create


def lines(*arguments: str, broker: Broker) -> list[str]:
    """The output of kcat as a consumer, a line for each message."""
    return kcat(broker.bootstrap, "-C", "-q", *arguments).decode().splitlines()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", ["false", "true"])
def test_lines(broker: Broker, topic: str, codec: str, idempotent: str) -> None:
    """Thousands of lines in, the same lines out, with keys."""
    sent = [f"key{n % 7}\t{n} some words that are squeezed well" for n in range(5_000)]
    produce = ["-P", "-t", topic, "-p", "0", "-K", "\t", "-z", codec, "-X", f"enable.idempotence={idempotent}"]
    kcat(broker.bootstrap, *produce, input="\n".join(sent).encode())
    assert lines("-t", topic, "-p", "0", "-o", "beginning", "-e", "-K", "\t", broker=broker) == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(broker: Broker, topic: str, acks: str) -> None:
    """Every kind of acknowledgement, none included."""
    create(broker, topic)
    kcat(broker.bootstrap, "-P", "-t", topic, "-p", "0", "-X", f"acks={acks}", input=b"a\nb\nc\n")
    assert lines("-t", topic, "-p", "0", "-o", "beginning", "-c", "3", broker=broker) == ["a", "b", "c"]


def test_partitions(broker: Broker, topic: str) -> None:
    """Keys spread over 20 partitions; all of them are read by one reader."""
    create(broker, topic, 20)
    sent = [f"key-{n}:{n}" for n in range(500)]
    kcat(broker.bootstrap, "-P", "-t", topic, "-K", ":", input="\n".join(sent).encode())
    found = lines("-t", topic, "-o", "beginning", "-e", "-f", "%p %k:%s\n", broker=broker)
    assert sorted(line.split()[1] for line in found) == sorted(sent)
    assert len({line.split()[0] for line in found}) > 10


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["-o", "95"], range(95, 100)),
        (["-o", "-3"], range(97, 100)),
        (["-o", "end"], range(0)),
        (["-o", f"s@{START + 96_000}"], range(96, 100)),
        (["-o", f"s@{START + 10_000}", "-o", f"e@{START + 13_000}"], range(10, 13)),
    ],
)
def test_where_to_read(broker: Broker, topic: str, where: list[str], expected: range) -> None:
    """From an offset, from the end, between times."""
    create(broker, topic)
    sent = [Message(b"%d" % n, timestamp=START + 1_000 * n) for n in range(100)]
    CLIENTS[0].produce(broker.bootstrap, topic, sent, codec="zstd")
    assert lines("-t", topic, "-p", "0", "-e", *where, broker=broker) == [str(n) for n in expected]


def test_json(broker: Broker, topic: str) -> None:
    """kcat -J shows offset, time, key and headers."""
    create(broker, topic)
    CLIENTS[0].produce(
        broker.bootstrap, topic, [Message(b"v", b"k", (("a", b"1"), ("none", None)), timestamp=START)], codec="gzip"
    )
    [line] = lines("-t", topic, "-p", "0", "-o", "beginning", "-e", "-J", broker=broker)
    found = json.loads(line)
    assert (found["offset"], found["tstype"], found["ts"]) == (0, "create", START)
    assert (found["key"], found["payload"], found["headers"]) == ("k", "v", ["a", "1", "none", None])


@pytest.mark.parametrize(
    "setting",
    [
        "fetch.min.bytes=100000",
        "message.max.bytes=1000 fetch.max.bytes=2000",
        "fetch.message.max.bytes=1500",
        "fetch.wait.max.ms=5",
        "isolation.level=read_committed",
        "isolation.level=read_uncommitted",
        "check.crcs=true",
        "socket.nagle.disable=true",
    ],
)
def test_settings_of_consumers(broker: Broker, topic: str, setting: str) -> None:
    """The fetch size changes how much comes at a time, and not the records."""
    create(broker, topic)
    sent = [f"{n} ".ljust(200, "x") for n in range(200)]
    for part in range(0, 200, 20):
        kcat(broker.bootstrap, "-P", "-t", topic, "-p", "0", input="\n".join(sent[part : part + 20]).encode())
    options = [word for each in setting.split() for word in ("-X", each)]
    assert lines("-t", topic, "-p", "0", "-o", "beginning", "-e", *options, broker=broker) == sent


def test_out_of_range(broker: Broker, topic: str) -> None:
    """With auto.offset.reset=error an offset beyond the end is one, and by default the end is gone to."""
    create(broker, topic)
    with pytest.raises(KcatFailed, match=r"[Oo]ffset"):
        kcat(broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "77", "-e", "-X", "topic.auto.offset.reset=error")
    assert lines("-t", topic, "-p", "0", "-o", "77", "-e", broker=broker) == []
