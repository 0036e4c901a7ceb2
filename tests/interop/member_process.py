"""
One group member in a process of its own, which polls all the time and can be killed.

It processes a record by sending it to the test, and commits, if told so, what it has processed.
"""

from __future__ import annotations

import logging
import time
import traceback
from multiprocessing.connection import Connection

from tests.interop.consumers import KINDS, Place, Settings


def live(pipe: Connection, kind: str, settings: Settings, commits: bool) -> None:
    """
    Be a member until told to close.

    :param pipe: where it is told what to call of its consumer, and says what it hears, with the time.
    :param commits: after each poll.
    """
    # What its library has to say about a broker that is away is of no interest.
    logging.disable()

    def heard(word: str, places: frozenset[Place]) -> None:
        pipe.send((word, time.monotonic(), places))

    try:
        consumer = KINDS[kind](settings, heard)
        while True:
            while pipe.poll():
                name, arguments = pipe.recv()
                if name == "close":
                    pipe.send(("leaving", time.monotonic(), None))
                    consumer.close()
                    pipe.send(("closed", time.monotonic(), None))
                    return
                try:
                    pipe.send(("answer", time.monotonic(), getattr(consumer, name)(*arguments)))
                except Exception:
                    pipe.send(("refused", time.monotonic(), traceback.format_exc()))
            records = consumer.poll(settings.poll_seconds)
            if records:
                pipe.send(("records", time.monotonic(), records))
                if commits:
                    try:
                        consumer.commit()
                    except Exception as e:
                        # Another member has the partition by now: it will process the records once more.
                        pipe.send(("not committed", time.monotonic(), repr(e)))
    except Exception:
        pipe.send(("failed", time.monotonic(), traceback.format_exc()))
