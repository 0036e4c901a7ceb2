"""The producer for asyncio."""

from __future__ import annotations

import asyncio

import pytest

from logbus.client import BufferFull, DeliveryFailed, InvalidOption, Unreachable
from logbus.client.aio import Cluster, Producer
from logbus.client.aio.awaiting import outcome
from logbus.client.aio.producer import ProducerArguments
from logbus.client.cluster import cluster as core_cluster
from logbus.client.producer import producer as core
from logbus.client.serializers import JsonSerializer, SerializationError
from logbus.errors import ApiError, ConfigError, ErrorCode
from tests.client.aio.kit import fill, make, run, values_of
from tests.client.aio.signatures import options_of


def test_send(bootstrap: str, topic: str) -> None:
    """A record's future has its place once it is written; send_and_wait waits for that."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap) as producer:
            first = await producer.send(topic, b"a", key=b"k", timestamp=1234, headers=[("h", b"1")])
            assert (await first)[:4] == (topic, 0, 0, 1234)
            assert (await producer.send_and_wait(topic, b"b")).offset == 1
            assert producer.metrics.records == 2
        assert await values_of(bootstrap, topic, 2) == [b"a", b"b"]

    run(work())


def test_many_in_order(bootstrap: str, topic: str) -> None:
    """Records of a partition are written in the order of sending, and leaving the block writes them all."""
    values = [b"%d" % number for number in range(5000)]

    async def work() -> None:
        await fill(bootstrap, topic, *values)
        assert await values_of(bootstrap, topic, 5000) == values

    run(work())


def test_refused(bootstrap: str, topic: str) -> None:
    """What cannot be written has its reason in the future, or where it is waited for."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap, value_serializer=JsonSerializer(), codec="zstd") as producer:
            with pytest.raises(ApiError) as missing:
                await producer.send_and_wait(f"{topic}-nowhere", 1)
            assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(SerializationError):
                await (await producer.send(topic, object()))
            assert (await producer.send_and_wait(topic, {"a": 1})).offset == 0
        with pytest.raises(DeliveryFailed, match="closed"):
            await producer.send_and_wait(topic, 1)

    run(work())


def test_cancelled_for_lack_of_room(bootstrap: str, topic: str) -> None:
    """A send that waits for room and is cancelled, or out of time, sends nothing; later ones go on."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap, buffer_bytes=1000, linger=1000.0, batch_bytes=100_000) as producer:
            first = await producer.send(topic, b"x" * 1000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await producer.send(topic, b"too much")
            waiting = asyncio.ensure_future(producer.send(topic, b"too much, too"))
            still = asyncio.ensure_future(producer.send_and_wait(topic, b"last"))
            await asyncio.sleep(0)
            waiting.cancel()
            await producer.flush()
            assert (await first).offset == 0
            with pytest.raises(asyncio.CancelledError):
                await waiting
            # It got room when the flush had written the first one.
            await asyncio.sleep(0)
            await producer.flush()
            assert (await still).offset == 1
        assert await values_of(bootstrap, topic, 2) == [b"x" * 1000, b"last"]

    run(work())


def test_cancelled_wait_for_delivery(bootstrap: str, topic: str) -> None:
    """Cancelling the wait for a record in a batch does not stop it, nor those beside it."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap, linger=1000.0) as producer:
            await outcome(producer._cluster.core.topic(topic))
            one = asyncio.ensure_future(producer.send_and_wait(topic, b"1"))
            two = asyncio.ensure_future(producer.send_and_wait(topic, b"2"))
            await asyncio.sleep(0)
            one.cancel()
            await asyncio.sleep(0)
            await producer.flush()
            assert (await two).offset == 1
            assert one.cancelled()

    run(work())


def test_close_is_cancelled(bootstrap: str, topic: str) -> None:
    """A close that is cancelled fails what is unsent, and hangs up all the same."""

    async def work() -> None:
        async with Cluster("127.0.0.1:1") as cluster:
            raise AssertionError(cluster)

    with pytest.raises(Unreachable):
        run(work())

    async def close() -> None:
        producer = Producer("127.0.0.1:1")
        sent = await producer.send(topic, b"1")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await producer.close()
        with pytest.raises(DeliveryFailed):
            await sent

    run(close())


def test_no_broker() -> None:
    """One line says what is wrong, at the start; the next address is tried first."""

    async def work() -> None:
        async with Producer("127.0.0.1:1,[::1]:1"):
            pass

    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: connection refused; cannot connect to \[::1\]:1"):
        run(work())


def test_several_addresses(bootstrap: str, topic: str) -> None:
    """One of several addresses is enough."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(["127.0.0.1:1", bootstrap]) as producer:
            assert (await producer.send_and_wait(topic, b"")).offset == 0

    run(work())


def test_shared_cluster(bootstrap: str, topic: str) -> None:
    """Clients of one cluster share it; its owner closes it."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Cluster(bootstrap, client_id="both") as cluster:
            async with Producer(cluster) as one:
                await one.send_and_wait(topic, b"")
            async with Producer(cluster) as two:
                assert (await two.send_and_wait(topic, b"")).offset == 1
            with pytest.raises(TypeError, match="client_id are options of the cluster"):
                Producer(cluster, client_id="mine")

    run(work())


def test_other_thread(bootstrap: str, topic: str) -> None:
    """What is asked from the loop of another thread is refused: nobody there would hear of its outcome."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap) as producer:
            await producer.send_and_wait(topic, b"")
            for call in (producer.send(topic, b""), producer.flush(), producer.close()):
                with pytest.raises(RuntimeError, match="another event loop"):
                    await asyncio.to_thread(asyncio.run, call)
            assert (await producer.send_and_wait(topic, b"")).offset == 1

    run(work())


def test_made_before_the_loop(bootstrap: str, topic: str) -> None:
    """A client can be made before there is a loop, and says so if it is used in another one later."""
    producer = Producer(bootstrap)

    async def work() -> None:
        await make(bootstrap, topic)
        async with producer:
            await producer.send_and_wait(topic, b"")

    run(work())
    with pytest.raises(RuntimeError, match="another event loop"):
        run(producer.start())


def test_options() -> None:
    """mypy knows all options of the producer and of the cluster; wrong ones are refused when it is made."""
    assert options_of(ProducerArguments) == options_of(core.Producer) | options_of(core_cluster.Cluster) - {"endpoint"}
    with pytest.raises(InvalidOption, match="acks is 7"):
        Producer("127.0.0.1:9092", acks=7)
    with pytest.raises(InvalidOption, match="no compression codec 'zip'"):
        Producer("127.0.0.1:9092", codec="zip")
    with pytest.raises(ConfigError, match="is not an address"):
        Producer("nonsense:nonsense")
    with pytest.raises(TypeError, match="no option clientid; did you mean client_id"):
        Producer("127.0.0.1:9092", clientid=1)  # type: ignore[call-arg]


def test_buffer_full_is_not_met(bootstrap: str, topic: str) -> None:
    """Whoever awaits each send never meets BufferFull, whatever the size of the buffer."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap, buffer_bytes=5000, linger=0.0) as producer:
            sent = [await producer.send(topic, b"x" * 1000) for _ in range(100)]
            assert not [each for each in await asyncio.gather(*sent) if isinstance(each, BufferFull)]

    run(work())
