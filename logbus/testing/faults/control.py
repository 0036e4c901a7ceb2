"""
Faults on command, as a test gives them.

.. code-block:: python

    with broker.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", times=2, topic="orders") as failing:
        producer.produce("orders", b"two of those")
        assert failing.wait(2, timeout=10)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Self

from attrs import define, frozen

from logbus.errors import ErrorCode
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.faults.rules import CORRUPT, DELAY, DISCONNECT, DROP, FAIL, THROTTLE, Rule, make_rule


@frozen(eq=False)
class Fault:
    """
    A rule in force, until :meth:`remove`; in a ``with`` block, until its end.

    :ivar rule: the rule.
    """

    _book: RuleBook
    number: int
    rule: Rule

    @property
    def hits(self) -> int:
        """How many requests it has happened to."""
        return self._book.hits(self.number)

    def wait(self, n: int = 1, timeout: float = 30.0) -> bool:
        """
        Wait until it has happened to ``n`` requests.

        :returns: False: it has not, within so many seconds; or it cannot any more, since it is over.
        """
        return self._book.wait(self.number, n, timeout)

    def remove(self) -> None:
        """End it. Requests that it holds already stay as they are."""
        self._book.remove(self.number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Fault {self.number}: {self.rule}; hits={self.hits}>"


@define(eq=False)
class Faults:
    """
    The faults of a broker: what happens to the next requests of its clients.

    Each method adds a rule, and takes which requests it is about:

    * ``api``: Kafka's name (``"Produce"``) or key (0); ``"*"`` for all;
    * ``client_id``, ``topic``: names, in which ``*`` and ``?`` stand for anything; ``partition``: a number;
    * ``times``: how many requests it happens to; None: all, until it is removed;
    * ``skip``: how many requests are let through before;
    * ``after``: whether a request is carried out first, so that only its answer is lost, late or wrong.

    The first rule that matches a request decides. Rules survive a restart of the broker.

    All of them raise :class:`~logbus.testing.requests.apis.WrongRequest`, with one line that says what would be right,
    for values that cannot be.
    """

    _book: RuleBook

    def fail(
        self,
        api: str | int,
        *,
        error: ErrorCode | str | int,
        message: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        skip: int = 0,
        after: bool = False,
    ) -> Fault:
        """
        Answer requests with an error.

        It is at the partitions or topics of the answer, where an API has errors there, and then only at those that
        ``topic`` and ``partition`` name: the rest of the request is carried out.

        :param error: Kafka's name (``"NOT_ENOUGH_REPLICAS"``) or code.
        :param message: the text beside it, for APIs that have one; None: Kafka's.
        """
        return self._add(FAIL, api, client_id, topic, partition, times, skip, error=error, message=message, after=after)

    def delay(
        self,
        api: str | int,
        seconds: float | timedelta,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        skip: int = 0,
        after: bool = False,
    ) -> Fault:
        """Answer requests late, by so many seconds; later requests of the same connection wait as well."""
        return self._add(DELAY, api, client_id, topic, partition, times, skip, seconds=seconds, after=after)

    def drop(
        self,
        api: str | int,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        skip: int = 0,
        after: bool = False,
    ) -> Fault:
        """
        Never answer requests. Later ones of the same connection wait behind, as with a broker that hangs, until the
        client gives the connection up.
        """
        return self._add(DROP, api, client_id, topic, partition, times, skip, after=after)

    def disconnect(
        self,
        api: str | int,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        skip: int = 0,
        after: bool = False,
    ) -> Fault:
        """Close the connection instead of an answer."""
        return self._add(DISCONNECT, api, client_id, topic, partition, times, skip, after=after)

    def corrupt(
        self,
        api: str | int,
        *,
        how: str = "flip",
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Fault:
        """
        Damage answers.

        :param how: ``flip``: one bit, after three quarters of the body, where a Fetch has its records; ``garbage``: the
            whole body; ``cut``: its second half is missing; ``correlation``: it is the answer to another request.
        """
        return self._add(CORRUPT, api, client_id, topic, partition, times, skip, how=how)

    def throttle(
        self,
        api: str | int,
        bytes_per_second: float,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Fault:
        """Send answers, all of them together, at a rate: each is sent whole, once its bytes would have passed."""
        return self._add(THROTTLE, api, client_id, topic, partition, times, skip, bytes_per_second=bytes_per_second)

    def add(self, rule: Rule) -> Fault:
        """Put a rule in force, such as one of :func:`~logbus.testing.faults.rules.rule_from_json`."""
        return Fault(self._book, self._book.add(rule), rule)

    def clear(self) -> None:
        """End all faults."""
        self._book.clear()

    @property
    def active(self) -> Sequence[Fault]:
        """The faults in force, in the order in which they are looked at."""
        return [Fault(self._book, number, rule) for number, rule, _ in self._book.rules()]

    def _add(
        self,
        action: str,
        api: str | int,
        client_id: str | None,
        topic: str | None,
        partition: int | None,
        times: int | None,
        skip: int,
        **more: object,
    ) -> Fault:
        match = {"client_id": client_id, "topic": topic, "partition": partition, "times": times, "skip": skip}
        return self.add(make_rule(action, api, **match, **more))
