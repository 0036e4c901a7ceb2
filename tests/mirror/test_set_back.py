"""Mirrors between clusters of which one was replaced, or set back to an older state."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logbus.mirror.audit.mirror_audit import MirrorAudit
from logbus.mirror.audit.partition_report import PartitionReport
from logbus.mirror.mirror_options import MirrorOptions
from tests.mirror.kit import MirrorCase, RunningMirror

NUMBERS = [b"%d" % number for number in range(40)]


class SetBackTests(MirrorCase):
    """One topic, which is mirrored."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster("a")
        self.cluster("b")
        self.create("a", "orders")

    def said(self, mirror: RunningMirror, text: str) -> None:
        """A mirror has said something once."""
        self.assertEqual(sum(text in each for each in mirror.lines), 1, mirror.lines)

    def audit(self) -> PartitionReport:
        """What the audit finds."""
        options = MirrorOptions(source="a", target="b")
        audit = MirrorAudit(self.clusters["a"].client(), self.clusters["b"].client(), options)
        (report,) = self.result(Deferred.fromCoroutine(audit.run()))
        assert isinstance(report, PartitionReport)
        return report

    def test_source(self) -> None:
        """A source that was set back is noticed, and what is new there since is not missed."""
        self.set_source_back(True, 5)

    def test_source_while_no_mirror_runs(self) -> None:
        """It is noticed also if it has more records than before, by the leader epoch in the offset syncs."""
        self.set_source_back(False, 20)

    def set_source_back(self, is_running: bool, more: int) -> None:
        self.send("a", "orders", NUMBERS[:10])
        mirror = self.mirror("a", "b", refresh_interval=3.0)
        self.settle(3)
        saved = self.snapshot("a")
        self.send("a", "orders", NUMBERS[10:20])
        self.settle(3)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:20])
        if not is_running:
            mirror.mirror.stop()
            self.settle(2)
        self.replace("a", saved)
        new = [b"new %d" % number for number in range(more)]
        self.send("a", "orders", new)
        if not is_running:
            mirror = self.mirror("a", "b", refresh_interval=3.0)
        self.settle(40)
        self.assertEqual(self.values("a", "orders"), NUMBERS[:10] + new)
        self.said(
            mirror, "orders-0: the source was set back to offset 10, and 20 were copied: it has lost some of these"
        )
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:20] + new)
        report = self.audit()
        self.assertEqual((report.missing, report.foreign), (0, 10))

    def test_target(self) -> None:
        """What a target has lost that was set back is copied again, whether the mirror runs or is started again."""
        self.send("a", "orders", NUMBERS[:10])
        mirror = self.mirror("a", "b", refresh_interval=3.0)
        self.settle(3)
        saved = self.snapshot("b")
        self.send("a", "orders", NUMBERS[10:20])
        self.settle(3)
        self.replace("b", saved)
        self.send("a", "orders", NUMBERS[20:])
        self.settle(60)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS)
        self.said(mirror, "the target b was set back to an older state")
        self.assertEqual(self.audit().verdict.value, "complete")

    def test_target_that_has_lost_records_only(self) -> None:
        """Records that are gone, although offset syncs say that they were copied, are copied again."""
        self.send("a", "orders", NUMBERS[:10])
        first = self.mirror("a", "b", refresh_interval=3.0)
        self.settle(3)
        (saved,) = self.snapshot("b")
        self.send("a", "orders", NUMBERS[10:20])
        self.settle(3)
        first.mirror.stop()
        self.settle(2)
        (present,) = self.snapshot("b")
        present.tree.entries["a.orders-0"] = saved.tree.entries["a.orders-0"]
        self.replace("b", [present])
        mirror = self.mirror_all("a", "b")
        self.said(mirror, "a.orders ends at offset 11 at the target b, and was written up to 21: it has lost records")
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:20])
        self.assertEqual(self.audit().verdict.value, "complete")

    def test_another_target(self) -> None:
        """If another cluster is in the place of the target, it gets everything."""
        self.send("a", "orders", NUMBERS[:10])
        self.mirror("a", "b", refresh_interval=3.0)
        self.settle(3)
        old = self.clusters["b"]
        old.kill(0)
        self.cluster("other")
        old.network.servers[0] = self.clusters["other"].network.servers[0]
        self.send("a", "orders", NUMBERS[10:])
        self.settle(60)
        self.assertEqual(self.values("other", "a.orders"), NUMBERS)
        del old.network.servers[0]
