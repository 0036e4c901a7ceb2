"""Tests of :mod:`logbus.compiled`: the compiled modules are those of the sources, and do the same."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus import compiled
from logbus.errors import ApiError, FrameTooLarge
from logbus.records import batch_validation
from logbus.wire import frame_buffer, request_template
from logbus.wire.connection import ClientConnection, ServerConnection
from tests.interpreted import interpreted
from tests.records.test_batch_validation import a_batch
from tests.wire.test_request_template import SERVED, asked


def a_package(directory: Path) -> Path:
    """A package with the sources of all the modules, none of them compiled."""
    for name in compiled.MODULES:
        path = compiled.source(name, directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compiled.source(name).read_bytes())
    return directory


class ChoiceTests(SynchronousTestCase):
    """Whether compiled modules are taken."""

    def setUp(self) -> None:
        there = tempfile.TemporaryDirectory()
        self.addCleanup(there.cleanup)
        self.root = a_package(Path(there.name))
        for name in compiled.MODULES:
            compiled.source(name, self.root).with_suffix(compiled._SUFFIX).touch()
        (self.root / compiled.CHECKSUM).write_text(compiled.checksum(self.root))

    def test_of_these_sources(self) -> None:
        """Modules that were compiled from the sources as they are can be used."""
        self.assertTrue(compiled.is_usable(self.root))

    def test_of_other_sources(self) -> None:
        """In a checkout sources and types change."""
        source = compiled.source("logbus.wire.frame_buffer", self.root)
        source.with_suffix(".pxd").write_text("cdef class FrameBuffer:\n    pass\n")
        self.assertFalse(compiled.is_usable(self.root))
        source.with_suffix(".pxd").unlink()
        self.assertTrue(compiled.is_usable(self.root))
        source.write_text("")
        self.assertFalse(compiled.is_usable(self.root))

    def test_not_all(self) -> None:
        """One that is missing has all of them interpreted."""
        compiled.source("logbus.wire.frame_buffer", self.root).with_suffix(compiled._SUFFIX).unlink()
        self.assertFalse(compiled.is_usable(self.root))

    def test_nothing_was_built(self) -> None:
        """Without a compiler there is no checksum."""
        (self.root / compiled.CHECKSUM).unlink()
        self.assertFalse(compiled.is_usable(self.root))

    def test_imported(self) -> None:
        """What was chosen is what is imported."""
        for name in compiled.MODULES:
            self.assertEqual(str(import_module(name).__file__).endswith(".py"), not compiled.IS_USED, name)

    def test_switched_off(self) -> None:
        """``LOGBUS_PURE`` has the sources imported."""
        script = f"import importlib; print(*(importlib.import_module(name).__file__ for name in {compiled.MODULES!r}))"
        command = ["env", "LOGBUS_PURE=1", sys.executable, "-c", script]
        root = str(Path(__file__).parent.parent)
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, timeout=300)
        self.assertEqual([file.endswith(".py") for file in done.stdout.split()], [True] * len(compiled.MODULES))


def outcome(fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a call gives, or how it fails."""
    try:
        return fn(*args, **named)
    except (ApiError, FrameTooLarge) as e:
        return type(e), str(e)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(max_size=40)),
        st.tuples(st.just("append"), st.integers(0, 9000).map(lambda n: n.to_bytes(4, "big") + bytes(min(n, 5000)))),
        st.tuples(st.just("receive"), st.binary(max_size=60)),
        st.tuples(st.sampled_from(["frame", "shrink", "detach", "grow"]), st.just(b"")),
    ),
    max_size=30,
)


class SameTests(SynchronousTestCase):
    """The compiled form and the source, side by side."""

    def setUp(self) -> None:
        if not compiled.IS_USED:
            raise SkipTest("LOGBUS_PURE is set, the sources have changed since, or there was no C compiler")

    @given(STEPS, st.integers(1, 10_000))
    def test_frame_buffer(self, steps: list[tuple[str, bytes]], limit: int) -> None:
        """The same frames, room and memory after whatever comes."""
        source = interpreted("logbus.wire.frame_buffer")
        pair = [kind(limit, floor=64) for kind in (frame_buffer.FrameBuffer, source.FrameBuffer)]
        for step, data in steps:
            found = [outcome(self.step, buffer, step, data) for buffer in pair]
            self.assertEqual(found[0], found[1])

    def step(self, buffer: Any, step: str, data: bytes) -> Any:
        """Do this, and tell all that can be seen."""
        result: Any = None
        if step == "append":
            buffer.append(data)
        elif step == "receive":
            room = buffer.room()
            size = min(len(room), len(data))
            room[:size] = data[:size]
            buffer.filled(size)
            result = len(room)
        elif step == "frame":
            frame = buffer.next_frame()
            result = None if frame is None else bytes(frame)
        elif step == "shrink":
            result = buffer.shrink()
        elif step == "grow":
            result = buffer.grow(100)
        else:
            buffer.detach_frames()
        held = bytes(buffer.contents[1][buffer.contents[2] : buffer.contents[3]])
        return result, held, buffer.held, buffer.capacity, buffer.shortage, buffer.missing, buffer.partial

    @given(
        st.sampled_from([5, 8, 9, 12, 13]),
        st.lists(st.integers(1, 200), min_size=1, max_size=5),
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
        st.integers(0, 20),
        st.integers(1, 6),
        st.integers(0, 600),
    )
    def test_templates(
        self, version: int, sizes: list[int], changes: list[tuple[int, int]], cut: int, most: int, most_bytes: int
    ) -> None:
        """The same runs of repeated requests, also of bent and cut bytes."""
        source = interpreted("logbus.wire.request_template")
        client, server = ClientConnection("me"), ServerConnection(SERVED)
        first = memoryview(asked(client, b"first", version))[4:]
        data = bytearray().join(asked(client, bytes(size), version) for size in sizes)
        for at, byte in changes:
            if at < len(data):
                data[at] = byte
        found = []
        for module in (request_template, source):
            cache = module.TemplateCache()
            self.assertTrue(cache.learn(server.receive(first), first))
            frames = frame_buffer.FrameBuffer(1 << 20)
            frames.append(data[: len(data) - cut])
            last, runs = None, []
            for _ in range(3):
                run = outcome(cache.take, frames, last, most, most_bytes)
                if run is None:
                    break
                last = run.template
                answer = last.written(run.correlation_ids[0], 5, -1, 0)
                runs.append((run.correlation_ids, [bytes(batch) for batch in run.batches], run.size, answer))
                cache.passed(run, frames)
            found.append((runs, frames.held))
        self.assertEqual(found[0], found[1])

    @given(
        st.fixed_dictionaries(
            {},
            optional={
                "attributes": st.integers(-(2**15), 2**15 - 1) | st.integers(0, 127),
                "last_offset_delta": st.integers(-1, 3),
                "record_count": st.integers(-1, 3) | st.integers(0, 2**31 - 1),
                "base_timestamp": st.integers(-(2**63), 2**63 - 1),
                "max_timestamp": st.integers(-2, 2**63 - 1),
                "producer_id": st.integers(-2, 2**63 - 1),
                "producer_epoch": st.integers(-1, 2**15 - 1),
                "base_sequence": st.integers(-1, 2**31 - 1),
                "length": st.integers(-1, 200),
                "magic": st.integers(0, 3),
            },
        ),
        st.booleans(),
        st.booleans(),
        st.integers(0, 90),
    )
    def test_validation(self, changes: dict[str, int], zstd_allowed: bool, sequenced: bool, cut: int) -> None:
        """The same header or error for whatever a producer sends."""
        data = a_batch(**changes)
        source = interpreted("logbus.records.batch_validation")
        for each in (data, data[:cut]):
            ours, plain = (
                outcome(module.validate_produced, memoryview(each), zstd_allowed=zstd_allowed, sequenced=sequenced)
                for module in (batch_validation, source)
            )
            self.assertEqual(ours, plain)
