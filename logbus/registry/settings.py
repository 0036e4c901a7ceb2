"""Handlers of compatibility levels and modes, global and by subject: ``/config``, ``/mode``."""

from __future__ import annotations

from logbus.registry.entries import ConfigEntry, ModeEntry
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.model import (
    DEFAULT_LEVEL,
    DEFAULT_MODE,
    IMPORT,
    LEVELS,
    MODES,
    READONLY,
    READONLY_OVERRIDE,
)
from logbus.registry.requests import HandlerResult, RegistryContext, RegistryResponse
from logbus.registry.state import RegistryState


def check_writable(state: RegistryState, subject: str | None) -> None:
    """
    Check that the mode of a subject permits changes.

    :raise RegistryRefusal: it is read-only.
    """
    override = state.modes.get(None) == READONLY_OVERRIDE
    if override or state.mode(subject) in (READONLY, READONLY_OVERRIDE):
        what = "The registry" if override or subject is None else f"Subject '{subject}'"
        mode = READONLY_OVERRIDE if override else state.mode(subject)
        raise RegistryRefusal(Code.NOT_PERMITTED, f"{what} is in mode {mode}, and is not changed until that is")


def get_config(call: RegistryContext, subject: str | None) -> HandlerResult:
    """``GET /config[/{subject}]``."""
    level = call.state.levels.get(subject)
    if level is None and (subject is None or (call.request.flag("defaultToGlobal") and call.subject(subject))):
        level = call.state.levels.get(None, DEFAULT_LEVEL)
    if level is None:
        raise _no_level(subject)
    return HandlerResult(RegistryResponse.of({"compatibilityLevel": level}))


def put_config(call: RegistryContext, subject: str | None) -> HandlerResult:
    """``PUT /config[/{subject}]``."""
    _check_subject(call, subject, call.state.levels)
    body = call.request.json()
    more = sorted(name for name, value in body.items() if value is not None and name != "compatibility")
    if more:
        raise RegistryRefusal(
            Code.UNPROCESSABLE, f"The body has {', '.join(more)[:200]}, which is not supported; compatibility is"
        )
    level = body.get("compatibility")
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise RegistryRefusal(
            Code.INVALID_COMPATIBILITY, f"Invalid compatibility level {level!r:.50}; there are {', '.join(LEVELS)}"
        )
    check_writable(call.state, subject)
    level = level.upper()
    return HandlerResult(RegistryResponse.of({"compatibility": level}), (ConfigEntry(subject, level),))


def delete_config(call: RegistryContext, subject: str | None) -> HandlerResult:
    """``DELETE /config[/{subject}]``: restore the global level."""
    level = call.state.levels.get(subject)
    if level is None and subject is not None:
        raise _no_level(subject)
    check_writable(call.state, subject)
    entries = () if level is None else (ConfigEntry(subject, None),)
    return HandlerResult(RegistryResponse.of({"compatibilityLevel": level or DEFAULT_LEVEL}), entries)


def get_mode(call: RegistryContext, subject: str | None) -> HandlerResult:
    """``GET /mode[/{subject}]``."""
    mode = call.state.modes.get(subject)
    if mode is None and (subject is None or (call.request.flag("defaultToGlobal") and call.subject(subject))):
        mode = call.state.modes.get(None, DEFAULT_MODE)
    if mode is None:
        raise _no_mode(subject)
    return HandlerResult(RegistryResponse.of({"mode": mode}))


def put_mode(call: RegistryContext, subject: str | None) -> HandlerResult:
    """``PUT /mode[/{subject}]``; IMPORT, in which requests choose ids, needs an empty subject or force."""
    _check_subject(call, subject, call.state.modes)
    mode = call.request.json().get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise RegistryRefusal(Code.INVALID_MODE, f"Invalid mode {mode!r:.50}; there are {', '.join(MODES)}")
    mode = mode.upper()
    if mode == IMPORT and not call.request.flag("force") and call.state.mode(subject) != IMPORT:
        there = call.state.versions(subject) if subject is not None else call.state.subjects
        if there:
            raise RegistryRefusal(
                Code.NOT_PERMITTED, "There are schemas already; mode IMPORT takes force=true then, or a new subject"
            )
    return HandlerResult(RegistryResponse.of({"mode": mode}), (ModeEntry(subject, mode),))


def delete_mode(call: RegistryContext, subject: str | None) -> HandlerResult:
    """``DELETE /mode[/{subject}]``."""
    mode = call.state.modes.get(subject)
    if mode is None and subject is not None:
        raise _no_mode(subject)
    entries = () if mode is None else (ModeEntry(subject, None),)
    return HandlerResult(RegistryResponse.of({"mode": mode or DEFAULT_MODE}), entries)


def _check_subject(call: RegistryContext, subject: str | None, settings: dict[str | None, str]) -> None:
    if subject is None:
        return
    call.subject(subject)
    if subject not in settings and len(settings) > call.limits.subjects:
        raise RegistryRefusal(
            Code.NOT_PERMITTED, f"{call.limits.subjects} subjects have settings of their own, which is the most"
        )


def _no_level(subject: str | None) -> RegistryRefusal:
    return RegistryRefusal(
        Code.NO_COMPATIBILITY_OF_ITS_OWN, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def _no_mode(subject: str | None) -> RegistryRefusal:
    return RegistryRefusal(Code.NO_MODE_OF_ITS_OWN, f"Subject '{subject}' does not have subject-level mode configured")
