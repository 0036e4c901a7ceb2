"""TxnOffsetCommit of members and others, in groups of each kind: the errors are those of Kafka 4.3.1, asked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logbus.errors import ErrorCode
from logbus.wire.messages.share_groups import ShareGroupHeartbeatRequest
from tests.handlers.group_kit import GroupCase, Member
from tests.handlers.test_consumer_groups import Consumer
from tests.handlers.test_streams_groups import Thread
from tests.handlers.transaction_kit import OffsetProducer

NONE, STRANGER, GENERATION = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
FENCED, NO_GROUP = ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND
BIG = "m" * 9000

Asked = dict[str, Any]


def asked(generation_id: int = -1, member_id: str = "", group_instance_id: str | None = None, **more: Any) -> Asked:
    return {"generation_id": generation_id, "member_id": member_id, "group_instance_id": group_instance_id, **more}


class MemberTests(GroupCase):
    """A producer that sends a member, or none."""

    config = {
        **GroupCase.config,
        "transaction.state.log.num.partitions": "2",
        "group.streams.initial.rebalance.delay.ms": "0",
    }

    def setUp(self) -> None:
        super().setUp()
        self.server.create("u")
        self.producer = OffsetProducer(self.server.connect()).find()

    def check(self, cases: Mapping[ErrorCode, list[Asked]], group: str = "g") -> None:
        """Each case at the first version with members, and at the one that adds the group by itself."""
        for by_v2 in (False, True):
            self.producer.by_v2 = by_v2
            self.producer.init()
            if not by_v2:
                self.assertEqual(self.producer.add_group(group), 0)
            wrong = []
            for code, some in cases.items():
                for given in some:
                    topics = given.get("topics", ["t"])
                    found = self.producer.commit(
                        {(topic, 0): 7 for topic in topics}, group, **{k: v for k, v in given.items() if k != "topics"}
                    )
                    if set(found.values()) != {code}:
                        wrong.append((by_v2, given, code, found))
            self.assertEqual(wrong, [])
            self.producer.end()

    def classic(self, instance_id: str | None = None) -> Member:
        member = self.member(instance_id=instance_id)
        self.group_of(member)
        return member

    def test_classic_group(self) -> None:
        """The generation and the member must be right, unless the producer knows neither."""
        one = self.classic()
        now, me = one.generation, one.member_id
        self.check(
            {
                NONE: [asked(now, me), asked(), asked(-2), asked(now, me, topics=["u"])],
                GENERATION: [asked(now - 1, me), asked(now + 1, me), asked(-1, me), asked(now - 1, me, metadata=BIG)],
                STRANGER: [asked(now, "who"), asked(-1, "who"), asked(now), asked(now, me, "i"), asked(-1, "", "i")],
            }
        )

    def test_static_member(self) -> None:
        """Who has lost its instance id to another one is fenced."""
        one = self.classic("i")
        now, me = one.generation, one.member_id
        self.check(
            {
                NONE: [asked(now, me, "i"), asked(now, me)],
                GENERATION: [asked(now - 1, me, "i"), asked(-1, me, "i")],
                STRANGER: [asked(now, me, "j"), asked(now, "who", "j")],
                FENCED: [asked(-1, "", "i"), asked(now, "who", "i")],
            }
        )

    def test_no_group(self) -> None:
        """Who names a generation is of a group that is gone; others begin one."""
        code = self.producer.commit({("t", 0): 1}, "none", **asked(0))
        self.assertEqual(code, {("t", 0): GENERATION})
        for group, given in (("a", asked(-1, "m")), ("b", asked(-2)), ("c", asked())):
            self.assertEqual(self.producer.commit({("t", 0): 1}, group, **given), {("t", 0): 0})

    def test_consumer_group(self) -> None:
        """The present epoch counts, and earlier ones for partitions that the member has had since (KIP-1251)."""
        one, two = Consumer(self.server.connect(), "a"), Consumer(self.server.connect(), "b")
        for each in (one, two) * 4:
            each.beat()
            # Between two assignments is a second.
            self.client.turn(1)
        now = one.epoch
        self.assertEqual((one.assigned, now), ([0], 2))
        self.check(
            {
                NONE: [
                    asked(),
                    asked(now, "a"),
                    asked(now - 1, "a"),
                    asked(now, "a", topics=["u"]),
                    # The instance id is not looked at.
                    asked(now, "a", "i"),
                ],
                GENERATION: [
                    asked(now + 1, "a"),
                    asked(-1, "a"),
                    asked(0, "a"),
                    asked(now - 1, "b"),
                    asked(now - 1, "a", topics=["u"]),
                    asked(now - 1, "a", topics=["t", "u"]),
                ],
                STRANGER: [asked(now, "who"), asked(-1, "who"), asked(now), asked(-2), asked(-1, "", "i")],
                # A partition whose metadata are refused is not looked at.
                ErrorCode.OFFSET_METADATA_TOO_LARGE: [asked(now - 1, "b", metadata=BIG)],
            }
        )

    def test_static_member_of_a_consumer_group(self) -> None:
        """The member that was replaced is unknown."""
        one = Consumer(self.server.connect(), "a")
        one.beat(instance_id="i")
        one.beat(member_epoch=-2, instance_id="i")
        self.check({GENERATION: [asked(1, "a", "i")], NONE: [asked(-2, "a", "i")]})
        two = Consumer(self.server.connect(), "b")
        two.beat(instance_id="i")
        self.check({STRANGER: [asked(1, "a", "i"), asked(1, "a")], NONE: [asked(two.epoch, "b", "i"), asked(0, "b")]})

    def test_streams_group(self) -> None:
        """As consumer groups."""
        one = Thread(self.server.connect(), "m")
        one.beat()
        now = one.epoch
        self.check(
            {
                NONE: [asked(), asked(now, "m"), asked(now, "m", "i"), asked(now, "m", topics=["u"])],
                GENERATION: [
                    asked(now + 1, "m"),
                    asked(now - 1, "m"),
                    asked(-1, "m"),
                    asked(now - 1, "m", topics=["u"]),
                ],
                STRANGER: [asked(now, "who"), asked(-1, "who"), asked(now), asked(-2), asked(-1, "", "i")],
            }
        )

    def test_share_group(self) -> None:
        """It has no committed offsets, whoever asks."""
        joining = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        self.client.send(joining, 1)
        self.client.turn(5)
        self.assertEqual(self.client.answers()[-1].error_code, 0)
        self.check({NO_GROUP: [asked(), asked(1, "m"), asked(-1, "who"), asked(0, "m", metadata=BIG)]})
