"""The options of ``logbus mirror``, and the keys of the mirror that a broker runs."""

from __future__ import annotations

from typing import Any

import click
from attrs import asdict
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.commands.mirror import mirror
from logbus.cli.mirror_options import CONNECTIONS, OPTIONS, option_name
from logbus.config import ConfigView, keys
from logbus.config.config_key import ConfigKey
from logbus.config.kinds import ConfigType
from logbus.config.mirror_flows import mirror_flows
from logbus.mirror.mirror_keys import mirror_options
from logbus.mirror.mirror_options import MirrorOptions

ONLY_OPTIONS = {
    "--until-end": "a broker's mirror goes on",
    "--flow": "the name in mirror.flow.NAME",
    "--metrics-port": "a broker has /metrics",
    "--help": "the reference page",
}
"""Options without a key, and what a broker has instead."""

CHANGED: dict[ConfigKey[Any], str] = {
    keys.MIRROR_SOURCE_NAME: "paris",
    keys.MIRROR_TARGET_NAME: "rome",
    keys.MIRROR_TOPICS: "orders,b{1,2}",
    keys.MIRROR_TOPICS_EXCLUDE: "x",
    keys.MIRROR_GROUPS: "g.*",
    keys.MIRROR_GROUPS_EXCLUDE: "gx",
    keys.MIRROR_NAMING: "identity",
    keys.MIRROR_START: "latest",
    keys.MIRROR_ON_RECREATED: "continue",
    keys.MIRROR_ON_TOO_LARGE: "skip",
    keys.MIRROR_SYNC_GROUPS: "true",
    keys.MIRROR_SYNC_SETTINGS: "false",
    keys.MIRROR_SYNC_ACLS: "true",
    keys.MIRROR_REPLICATION_FACTOR: "2",
    keys.MIRROR_RATE: "1000",
    keys.MIRROR_INTERVAL_SECONDS: "0.5",
    keys.MIRROR_REFRESH_INTERVAL_SECONDS: "3",
    keys.MIRROR_CHECKPOINT_INTERVAL_SECONDS: "4",
    keys.MIRROR_HEARTBEAT_INTERVAL_SECONDS: "0",
    keys.MIRROR_TIMEOUT_SECONDS: "7",
}
"""A value for each key that is not its default."""


def by_command(arguments: list[str]) -> MirrorOptions:
    """What the command makes of its arguments."""
    from logbus.cli.mirror_options import mirror_options_of

    params = mirror.make_context("mirror", ["--from", "a:1", "--to", "b:1", *arguments]).params
    found: MirrorOptions = mirror_options_of(params, params["flow"], params["until_end"])
    return found


def by_keys(settings: dict[str, str]) -> MirrorOptions:
    """What a broker makes of its keys."""
    view = ConfigView.load(set={"log.dirs": "/tmp/x", "mirror.source.bootstrap.servers": "a:1", **settings})
    (flow,) = mirror_flows(view)
    return mirror_options(flow, flow=flow.flow)


class SameOptionsTests(SynchronousTestCase):
    def test_all_there(self) -> None:
        """Each key has an option, and each option a key, or a reason not to."""
        options = {
            name for each in mirror.params if isinstance(each, click.Option) for name in each.opts if "--" in name
        }
        ours = {option_name(key) for key in (*OPTIONS, *CONNECTIONS)}
        self.assertEqual(ours & ONLY_OPTIONS.keys(), set())
        self.assertEqual(options | {"--help"}, ours | ONLY_OPTIONS.keys())
        self.assertEqual({*CHANGED}, {*OPTIONS})

    def test_defaults(self) -> None:
        """Without any they mean the same, which is also that of the class."""
        self.assertEqual(by_command([]), by_keys({}))
        self.assertEqual(asdict(by_command([])), asdict(MirrorOptions()))

    def test_values(self) -> None:
        """Each has the same effect as an option, as a key, and as the key of one mirror of several."""
        plain = by_command([])
        for key, text in CHANGED.items():
            name = option_name(key)
            given = by_command([name] if key.type is ConfigType.BOOLEAN else [name, text])
            self.assertEqual(given, by_keys({key.name: text}), name)
            if key is not keys.MIRROR_TIMEOUT_SECONDS:
                self.assertNotEqual(given, plain, name)
            flow = by_keys({key.name.replace("mirror.", "mirror.flow.bulk."): text})
            self.assertEqual(
                flow, by_command(["--flow", "bulk", *([name] if text in ("true", "false") else [name, text])])
            )

    def test_how_they_are_said(self) -> None:
        """Lines to users name the option, or in a broker the key."""
        view = ConfigView.load(set={"log.dirs": "/tmp/x", "mirror.source.bootstrap.servers": "a:1"})
        (flow,) = mirror_flows(view)
        for key in OPTIONS:
            if key is not keys.MIRROR_TIMEOUT_SECONDS and key.type is not ConfigType.BOOLEAN:
                option = option_name(key)
                self.assertEqual(by_command([]).said(option.removeprefix("--")), option)
        of_broker = mirror_options(flow, of_broker=True)
        self.assertEqual(of_broker.said("on-too-large", "skip"), "mirror.on.too.large=skip")
        self.assertEqual(of_broker.said("topics"), "mirror.topics")

    def test_several_at_once(self) -> None:
        """Lists may be given by several options; the others of a broker's mirrors are those of all."""
        given = by_command(["-t", "a,b", "-t", "c", "--rate", "5"])
        self.assertEqual(given, by_keys({"mirror.topics": "a, b, c", "mirror.rate": "5"}))
        named = by_keys({"mirror.flow.x.topics": "a", "mirror.topics": "b", "mirror.rate": "5"})
        self.assertEqual(named, by_command(["-t", "a", "--rate", "5", "--flow", "x"]))
