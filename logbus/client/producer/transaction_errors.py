"""
Errors of a producer's transactions.

There are two kinds (KIP-1050). After a :class:`TransactionAborted`, try another transaction. After a
:class:`ProducerUnusable`, such as :class:`Fenced`, a new producer is needed.
"""

from __future__ import annotations

from logbus.errors import LogbusError


class TransactionError(LogbusError):
    """Base of errors of transactions."""


class TransactionAborted(TransactionError):
    """The transaction was aborted, or can only be aborted; the message has the cause. Another one may be tried."""


class OutcomeUnknown(TransactionError):
    """The coordinator did not answer in time, so the transaction was committed or aborted. Another one may be tried."""


class ProducerUnusable(TransactionError):
    """This producer can send nothing more; close it."""


class Fenced(ProducerUnusable):
    """Another producer uses the transactional id, or the coordinator timed this one out; close it."""
