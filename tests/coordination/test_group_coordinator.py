"""Tests of the metrics of :mod:`logbus.coordination.group_coordinator`."""

from __future__ import annotations

from tests.handlers.group_kit import GroupCase, commit


class GroupMetricsTests(GroupCase):
    """Groups in numbers."""

    def values(self) -> dict[str, float]:
        return {
            sample.name + "".join(f"{{{value}}}" for _, value in sample.labels): sample.value
            for family in self.server.broker.registry.collect()
            for sample in family.samples
            if "group" in sample.name or "offset" in sample.name
        }

    def test_groups(self) -> None:
        """How many are in which state, what they committed, and what was read back."""
        values = self.values()
        self.assertEqual(values["logbus_groups{Stable}"], 0)
        self.assertEqual((values["logbus_group_loads_total"], values["logbus_group_partitions_loading"]), (4, 0))
        self.group_of(self.member(group="used"))
        for _ in range(3):
            commit(self.client, {("t", 0): 1, ("t", 1): 2}, "simple")
        values = self.values()
        self.assertEqual((values["logbus_groups{Stable}"], values["logbus_groups{Empty}"]), (1, 1))
        self.assertEqual((values["logbus_offset_commits_total"], values["logbus_committed_offsets"]), (6, 2))
        self.assertEqual(values["logbus_group_records_damaged_total"], 0)
