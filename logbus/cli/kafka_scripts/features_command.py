"""``kafka-features``: prints the levels of a cluster's features, and changes them (Kafka: FeatureCommand, KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import api_error
from logbus.errors import ApiError
from logbus.wire.messages.api_versions import (
    ApiVersionsResponse,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from logbus.wire.negotiation import NEWEST, api_versions_request

_CHANGES = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}
_ACTIONS = ("describe", *_CHANGES)
_OF_RELEASES = ("version-mapping", "feature-dependencies")
_BY_RELEASE = (
    "brokers of logbus have no metadata.version; 'logbus start --as-version' sets the release that they advertise"
)
_CONTROLLERS = "brokers of logbus are controllers, too; give --bootstrap-server"
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_MOST = 0x7FFF
_SUBJECT = "features"

_NAME, _LEVEL = 42, 17
"""Widths of columns, as Kafka's."""

PARSER = OptionParser(
    f"Prints the levels of features, or changes them, as the first word says: {', '.join(_ACTIONS)}.",
    [
        Option("bootstrap-controller", "server to connect to", refusal=_CONTROLLERS),
        Option("feature", "name=level", "A feature, and the level to set; a name alone for disable. May be repeated."),
        Option("dry-run", help="Only say whether the change would be made."),
        Option("unsafe", help="Downgrade even if metadata may be lost."),
        Option("metadata", "version", refusal=_BY_RELEASE),
        Option("release-version", "version", refusal=_BY_RELEASE),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    action = _action(options)
    changes = {} if action == "describe" else feature_levels(action, options.values("feature"))
    if not options.has("bootstrap-server"):
        raise UsageError("You must specify --bootstrap-server")
    if action == "describe":

        async def describe(cluster: Cluster, admin: AdminClient) -> ApiVersionsResponse:
            channel = await cluster.any_channel()
            found: ApiVersionsResponse = await channel.request(api_versions_request(NEWEST), channel.version(18))
            return found

        for line in feature_lines(with_cluster(options, describe)):
            say(line)
        return 0
    only_check, unsafe = options.has("dry-run"), options.has("unsafe")

    async def change(cluster: Cluster, admin: AdminClient) -> dict[str, ApiError | None]:
        channel = await cluster.any_channel()
        request = update_request(action, changes, unsafe=unsafe, only_check=only_check)
        return update_errors(changes, await channel.request(request))

    errors = with_cluster(options, change)
    failed = 0
    for name, level in sorted(changes.items()):
        error, to = errors[name], "" if action == "disable" else f" to {level}"
        if error is None:
            say(f"{name} {'can be' if only_check else 'was'} {_CHANGES[action]}{to}.")
        else:
            failed += 1
            say(f"{'Can not' if only_check else 'Could not'} {action} {name}{to}. {broker_text(error, _SUBJECT)}")
    if failed:
        complain(f"{failed} out of {len(changes)} operation(s) failed.")
    return 1 if failed else 0


def _action(options: ParsedOptions) -> str:
    if not options.words:
        raise UsageError("Command line error: too few arguments. Type --help for help.")
    action = options.words[0]
    if action in _OF_RELEASES:
        raise UsageError(f"{action} is not served; {_BY_RELEASE}")
    if action not in _ACTIONS:
        choices = ", ".join(f"'{each}'" for each in (*_ACTIONS, *_OF_RELEASES))
        what = f"invalid choice: '{action}' (choose from {choices})"
        raise UsageError(f"Command line error: {what}. Type --help for help.")
    return action


def feature_levels(action: str, texts: list[str]) -> dict[str, int]:
    """
    The levels that options name.

    :raise UsageError: there is none, or one is no level.
    """
    if not texts:
        raise UsageError(f"You must specify at least one feature to {action}, as --feature group.version=1")
    found: dict[str, int] = {}
    for text in texts:
        name, equals, level = (each.strip() for each in text.partition("="))
        if action == "disable":
            if equals:
                raise UsageError(f"disable takes the name of a feature alone, and not '{text}'")
            level = "0"
        elif not equals or not name:
            raise UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
        if not (level.isascii() and level.isdigit() and int(level) <= _MOST):
            raise UsageError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
        if name in found:
            raise UsageError(f"Feature {name} was specified more than once.")
        found[name] = int(level)
    return found


def update_request(action: str, levels: Mapping[str, int], *, unsafe: bool, only_check: bool) -> UpdateFeaturesRequest:
    """The request for a change."""
    kind = _UPGRADE if action == "upgrade" else _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level in levels.items()
        ],
        validate_only=only_check,
    )


def update_errors(names: Mapping[str, int], answer: UpdateFeaturesResponse) -> dict[str, ApiError | None]:
    """What became of each feature; newer brokers change all or none."""
    if answer.error_code:
        return dict.fromkeys(names, api_error(answer.error_code, _SUBJECT, answer.error_message))
    found: dict[str, ApiError | None] = dict.fromkeys(names)
    for each in answer.results:
        if each.error_code:
            found[each.feature] = api_error(each.error_code, _SUBJECT, each.error_message)
    return found


def feature_lines(answer: ApiVersionsResponse) -> list[str]:
    """
    What ``describe`` prints.

    :raise ApiError: the broker refuses to tell.
    """
    if answer.error_code:
        raise api_error(answer.error_code, "the broker's features")
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    epoch = answer.finalized_features_epoch
    return [
        f"Feature: {each.name:<{_NAME}}SupportedMinVersion: {each.min_version:<{_LEVEL}}"
        f"SupportedMaxVersion: {each.max_version:<{_LEVEL}}FinalizedVersionLevel: {levels.get(each.name, 0):<{_LEVEL}}"
        f"Epoch: {'-' if epoch < 0 else epoch}"
        for each in sorted(answer.supported_features, key=lambda each: each.name)
    ]
