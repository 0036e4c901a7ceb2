"""Tests how losses that planning finds are reported."""

from __future__ import annotations

import pickle

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.errors import DataLossFound
from logbus.pipeline.source import data_loss
from logbus.pipeline.source.data_loss import DataLossReport


class DataLossTests(SynchronousTestCase):
    """Losses that are errors, or are logged."""

    def test_error(self) -> None:
        """It names the losses, the first of many, and what the user can set."""
        DataLossReport(True).report([])
        for _ in range(2):
            with self.assertRaisesRegex(DataLossFound, "^data are lost: a; b; with the option failOnDataLoss=false wh"):
                DataLossReport(True).report(["a", "b"])
        with self.assertRaisesRegex(DataLossFound, "; loss 9; and 2 more; with --source failOnDataLoss=false what is "):
            DataLossReport(True, "--source failOnDataLoss=false").report([f"loss {number}" for number in range(12)])

    def test_logged_once(self) -> None:
        """However often Spark asks for a batch; another loss is told, and the same one in a later batch."""
        losses = pickle.loads(pickle.dumps(DataLossReport(False)))
        for wanted, found in ((["a"], ["a"]), (["a"], []), (["a", "b"], ["b"]), ([], []), (["a"], ["a"])):
            with self.subTest(wanted=wanted):
                if not found:
                    with self.assertNoLogs(data_loss.__name__):
                        losses.report(wanted)
                    continue
                with self.assertLogs(data_loss.__name__) as logs:
                    losses.report(wanted)
                self.assertEqual([each.getMessage() for each in logs.records], [f"data are lost: {found[0]}"])
