"""A cluster of several brokers: who knows what, and who tells whom."""

from __future__ import annotations

from tests.cluster.several import ClusterCase


class FormationTests(ClusterCase):
    """Brokers that come one after the other."""

    def test_all_know_all(self) -> None:
        """Every broker knows every other, and who the controller is."""
        for broker_id in self.cluster.alive:
            metadata = self.cluster.metadata(broker_id)
            self.assertEqual((sorted(metadata.brokers), metadata.controller_id), ([0, 1, 2], 0))
            self.assertEqual(self.cluster[broker_id].broker.not_ready(), [])
