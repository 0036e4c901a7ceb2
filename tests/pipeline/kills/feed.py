"""Produces records while jobs are killed, and watches their results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from attrs import define, field
from confluent_kafka import Producer

PARTITIONS = 3
BACKLOG = 1500
"""Records that a job may be behind before no more come: it catches up with them in the end."""

_SECONDS = 60.0

Place = tuple[int, int]
"""A partition and an offset."""


class Looper:
    """
    Does something again and again in a thread.

    :param last: is done in the end.
    """

    def __init__(self, seconds: float, do: Callable[[], object], last: Callable[[], object] = lambda: None) -> None:
        self._stopping = threading.Event()
        self._problem: BaseException | None = None

        def run() -> None:
            try:
                while not self._stopping.wait(seconds):
                    do()
                last()
            except BaseException as e:
                self._problem = e

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """
        End it.

        :raise Exception: what it does has failed.
        """
        self._stopping.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem


@define(eq=False)
class Feed:
    """
    Records that come all the time, unless the job is too far behind; a context manager.

    :param value: of a record, by its number.
    :param taken: how many the job has taken so far.
    :ivar written: the numbers, by where they are.
    """

    bootstrap: str
    topic: str
    value: Callable[[int], bytes]
    taken: Callable[[], int]
    written: dict[Place, int] = field(factory=dict)
    _looper: Looper = field(init=False)

    def __enter__(self) -> Feed:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        number = 0

        def more() -> None:
            nonlocal number
            producer.poll(0)
            if number - self.taken() > BACKLOG:
                return
            for each in range(number, number + 20):
                producer.produce(self.topic, self.value(each), on_delivery=self._told(each))
            number += 20

        self._looper = Looper(0.1, more, lambda: producer.flush(_SECONDS))
        return self

    def _told(self, number: int) -> Callable[[Any, Any], None]:
        def told(error: Any, message: Any) -> None:
            assert error is None, error
            self.written[message.partition(), message.offset()] = number

        return told

    def __exit__(self, *_: object) -> None:
        self._looper.stop()
