"""Types of declared messages, as a type checker sees them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.strict_mypy import strict_mypy

ROOT = Path(__file__).parents[2]

USE = """
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchResponse, PartitionProduceData
from logbus.wire.messages.metadata import MetadataRequestTopic, MetadataResponsePartition
from logbus.wire.schema import Int32, decode, decoder, encode, field, struct

def read(request: FetchRequest, produced: PartitionProduceData, topic: MetadataRequestTopic) -> None:
    reveal_type(request.topics[0].partitions[0].fetch_offset)
    reveal_type(request.cluster_id)
    reveal_type(request.topics[0].topic_id)
    reveal_type(produced.records)
    reveal_type(topic.name)
    reveal_type(decode(FetchRequest, 12, b"")[0])
    reveal_type(decoder(FetchRequest, 12)(b"", 0, 10)[0].topics)
    reveal_type(encode(request, 12))
    FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=2, current_leader_epoch=3)
    MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
"""

REVEALED = [
    "int",
    "str | None",
    "bytes",
    "bytes | memoryview[int] | None",
    "str | None",
    "logbus.wire.messages.records.FetchRequest",
    "list[logbus.wire.messages.records.FetchTopic]",
    "list[bytes | memoryview[int] | logbus.records.file_slice.FileSlice]",
]

# Each line is wrong in its own way.
MISUSE = {
    "FetchPartition(partition=0, fetch_offset=1)": "partition_max_bytes",
    "FetchPartition(partition='0', fetch_offset=1, partition_max_bytes=2)": "str",
    "FetchPartition(0, 1, 2)": "positional",
    "FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=2, leader=3)": "leader",
    "FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=2).fetch_ofset": "fetch_ofset",
    "FetchPartition(partition=0, fetch_offset=None, partition_max_bytes=2)": "None",
    "FetchResponse(responses=[FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])])": "FetchRequest",
}

DECLARED = """
@struct
class Wrong:
    one: Int32 = field("1+", default="x")
    two: Int32 = field("1+", default=None, tag=0)
    three: list[Int32] = field("1+", factory=dict)
"""


class TypingTests(SynchronousTestCase):
    """mypy, in strict mode, on code that uses messages."""

    def test_strict(self) -> None:
        """Fields have their Python types, constructors their keywords, and misuse is found where it stands."""
        if find_spec("mypy") is None:
            raise SkipTest("mypy is not installed")
        lines = [*USE.splitlines(), *MISUSE, *DECLARED.splitlines()]
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = Path(folder.name) / "use.py"
        source.write_text("\n".join(lines) + "\n")
        options = ["--no-error-summary", "--hide-error-context", "--no-pretty", "--python-version", "3.11"]
        cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "tests"), "--config-file", ""]
        checked = strict_mypy(*options, *cache, str(source), env={**os.environ, "MYPYPATH": str(ROOT)})
        self.assertEqual(checked.stderr, "")
        revealed = []
        said: dict[str, str] = {}
        for line in checked.stdout.splitlines():
            _, number, kind, words = line.split(":", 3)
            if kind == " error":
                place = lines[int(number) - 1].strip()
                said[place] = said.get(place, "") + words
            elif words.startswith(" Revealed type"):
                revealed.append(words.split('"')[1].replace("builtins.", ""))
        self.assertEqual(revealed, REVEALED)
        for line, word in MISUSE.items():
            self.assertIn(word, said.pop(line, ""), line)
        wrong = [line.strip() for line in DECLARED.splitlines()[3:]]
        self.assertEqual(sorted(said), sorted(wrong), checked.stdout)
