"""
Deletes subjects and versions, in two steps: soft, then permanent.

A soft-deleted version is not listed and not compared with, but its schema can still be read by id. A permanent deletion
removes the id with the last version that has it; ids are not reused.
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.registry.entries import ConfigEntry, Entry, HighestIdEntry, ModeEntry, SchemaEntry
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.model import Version
from logbus.registry.requests import (
    LATEST,
    HandlerResult,
    RegistryContext,
    RegistryResponse,
    no_subject,
    no_version,
    version_number,
)
from logbus.registry.settings import check_writable


def delete_subject(call: RegistryContext, subject: str) -> HandlerResult:
    """``DELETE /subjects/{subject}``."""
    state, permanent = call.state, call.request.flag("permanent")
    all_versions, live = state.versions(subject, deleted=True), state.versions(subject)
    if not all_versions:
        raise no_subject(subject)
    if not live and not permanent:
        raise RegistryRefusal(
            Code.SUBJECT_SOFT_DELETED,
            f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
        )
    if live and permanent:
        raise RegistryRefusal(
            Code.SUBJECT_NOT_SOFT_DELETED,
            f"Subject '{subject}' was not deleted first before being permanently deleted",
        )
    check_writable(state, subject)
    gone = all_versions if permanent else live
    _check_unused(call, subject, gone, permanent)
    return HandlerResult(RegistryResponse.of(list(gone)), _entries(call, subject, gone, permanent))


def delete_version(call: RegistryContext, subject: str, given: str) -> HandlerResult:
    """``DELETE /subjects/{subject}/versions/{version}``."""
    state, permanent = call.state, call.request.flag("permanent")
    number = version_number(given)
    versions = state.versions(subject, deleted=True)
    if not versions or not (permanent or state.versions(subject)):
        raise no_subject(subject)
    if number == LATEST:
        number = max(versions if permanent else state.versions(subject))
    if number not in versions:
        raise no_version(number)
    if versions[number].deleted and not permanent:
        raise RegistryRefusal(
            Code.VERSION_SOFT_DELETED,
            f"Subject '{subject}' Version {number} was soft deleted.Set permanent=true to delete permanently",
        )
    if permanent and not versions[number].deleted:
        raise RegistryRefusal(
            Code.VERSION_NOT_SOFT_DELETED,
            f"Subject '{subject}' Version {number} was not deleted first before being permanently deleted",
        )
    check_writable(state, subject)
    gone = {number: versions[number]}
    _check_unused(call, subject, gone, permanent)
    return HandlerResult(RegistryResponse.of(number), _entries(call, subject, gone, permanent))


def _entries(call: RegistryContext, subject: str, gone: Mapping[int, Version], permanent: bool) -> tuple[Entry, ...]:
    state = call.state
    entries: list[Entry] = []
    if permanent:
        # After compaction the log no longer shows that these ids were used.
        entries.append(HighestIdEntry(state.highest_id))
        entries += [SchemaEntry(subject, number) for number in gone]
    else:
        entries += [
            SchemaEntry(subject, number, version.id, state.schemas[version.id], deleted=True)
            for number, version in gone.items()
        ]
        if gone.keys() == state.versions(subject).keys():
            # A later subject of this name starts without settings.
            entries += [ConfigEntry(subject, None)] if subject in state.levels else []
            entries += [ModeEntry(subject, None)] if subject in state.modes else []
    return tuple(entries)


def _check_unused(call: RegistryContext, subject: str, gone: Mapping[int, Version], permanent: bool) -> None:
    """
    Check that no schema refers to these versions that stays, be it as another subject's.

    :raise RegistryRefusal: one does.
    """
    state, places = call.state, {(subject, number) for number in gone}
    for number in gone:
        found = state.referrers(subject, number, deleted=permanent)
        users = [each for each in found if not places.issuperset(state.users(each, deleted=permanent))]
        if users:
            raise RegistryRefusal(
                Code.REFERENCE_EXISTS,
                f"One or more references exist to the schema of subject '{subject}', version {number}: from schemas "
                f"with the ids {', '.join(map(str, users[:10]))}; delete these first",
            )
