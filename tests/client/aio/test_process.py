"""What a process with a client for asyncio has, and has not."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

NOT_NEEDED = (
    "OpenSSL",
    "kazoo",
    "twisted.internet.base",
    "twisted.internet.endpoints",
    "twisted.internet.reactor",
    "twisted.internet.tcp",
    "twisted.web",
)
"""Modules that take long to import, or install a reactor."""


def program(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program, with the warnings that are shown during development."""
    command = [sys.executable, "-W", "default", "-c", dedent(text), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_imports(bootstrap: str, topic: str) -> None:
    """No reactor is installed, nor is anything imported that only the reactor needs; no thread is left."""
    done = program(
        """
        import asyncio, sys, threading
        from logbus.client.aio import AdminClient, Consumer, Producer
        from logbus.client import NewTopic

        async def main(bootstrap, topic):
            async with AdminClient(bootstrap) as admin:
                await admin.create_topics([NewTopic(topic)])
            async with Producer(bootstrap, transactional_id=topic) as producer:
                async with producer.transaction():
                    await producer.send(topic, b"1")
            async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
                print((await consumer.getone()).value)
                await consumer.commit()
            print(threading.active_count())

        asyncio.run(main(*sys.argv[1:3]))
        print(sorted(set(sys.argv[3:]) & set(sys.modules)))
        """,
        bootstrap,
        topic,
        *NOT_NEEDED,
    )
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["b'1'", "1", "[]"], "", 0)


def test_not_closed(bootstrap: str, topic: str) -> None:
    """A client that was not closed is warned about; the process ends all the same."""
    done = program(
        """
        import asyncio, sys
        from logbus.client.aio import Consumer, Producer

        async def main(bootstrap, topic):
            global producer
            producer = Producer(bootstrap, create_topics=True)
            consumer = Consumer(bootstrap, group_id=topic)
            await producer.start()
            await consumer.start()
            await producer.send_and_wait(topic, b"1")
            consumer.subscribe([topic])
            await producer.send(topic, b"2")
            del consumer

        asyncio.run(main(*sys.argv[1:]))
        print("over")
        """,
        bootstrap,
        topic,
    )
    assert (done.stdout, done.returncode) == ("over\n", 0), done.stderr
    for name in ("Producer", "Consumer"):
        assert f"ResourceWarning: {name} was not closed; use 'async with'" in done.stderr
    assert "Traceback" not in done.stderr


def test_logging() -> None:
    """What the client logs goes to Python's logging."""
    done = program(
        """
        import asyncio, logging
        from logbus.client import Unreachable
        from logbus.client.aio import Producer

        async def main():
            try:
                await Producer("127.0.0.1:1").start()
            except Unreachable:
                pass

        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        asyncio.run(main())
        """
    )
    assert done.stderr == (
        "WARNING logbus.client.cluster.broker_connections.BrokerConnections: "
        "cannot connect to 127.0.0.1:1: connection refused\n"
    )
