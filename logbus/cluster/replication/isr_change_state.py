"""
The ISR changes of a partition that its leader has asked the controller for (Kafka: PendingPartitionChange). Pure.

A change may have been made although no answer came, or the answer may be lost. Until the leader knows the stored ISR
again, the replicas of such a change count as its members (KIP-497).
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import define, field

from logbus.model import IsrChange

NOBODY: frozenset[int] = frozenset()


@define(eq=False)
class IsrChangeState:
    """
    The leader's requests to change the ISR.

    :ivar pending: the change that was sent to the controller, or is about to be.
    :ivar unconfirmed: in-sync replicas that registered anew: they may have been taken out of the ISR without the
        leader's knowledge.
    """

    pending: IsrChange | None = field(default=None, init=False)
    unconfirmed: frozenset[int] = field(default=NOBODY, init=False)
    _doubtful: frozenset[int] = field(default=NOBODY, init=False)
    _confirming: frozenset[int] = field(default=NOBODY, init=False)
    _asked: IsrChange | None = field(default=None, init=False)

    @property
    def needs_confirmation(self) -> bool:
        """Whether the controller must confirm the ISR, though no other one is wanted."""
        return bool(self._doubtful or self.unconfirmed)

    @property
    def possible_members(self) -> frozenset[int]:
        """The replicas that may be in the stored ISR because of these changes."""
        return self._doubtful if self.pending is None else self._doubtful.union(self.pending.isr)

    def begin_epoch(self) -> None:
        """This broker leads in a new epoch: no member has registered anew in it yet."""
        self.unconfirmed = self._confirming = NOBODY
        self._asked = None

    def settle(self) -> None:
        """The stored ISR is known: a change that built on an older one was applied with it, or cannot be any more."""
        self.pending = None
        self._doubtful = NOBODY

    def unconfirm(self, broker_id: int) -> None:
        """A member has registered anew."""
        self.unconfirmed |= {broker_id}
        self._confirming -= {broker_id}

    def restrict(self, isr: Collection[int]) -> None:
        """Others than the members of the stored ISR need no confirmation."""
        self.unconfirmed = self.unconfirmed.intersection(isr)

    def ask(self, change: IsrChange) -> None:
        """The change is sent to the controller."""
        self._confirming = self.unconfirmed
        self.pending = self._asked = change

    def granted(self, change: IsrChange) -> bool:
        """The change was accepted. Return whether it is the last that was sent in this epoch."""
        if self._asked is not change:
            return False
        # The metadata update with the same state may have come first and ended the change; but it confirms no member.
        self._asked = None
        self.unconfirmed -= self._confirming
        if self.pending is change:
            self.settle()
        return True

    def unanswered(self, change: IsrChange) -> None:
        """No answer came: the change may have been made, or may be yet, so its replicas still count."""
        self.pending = None
        self._doubtful = self._doubtful.union(change.isr)
