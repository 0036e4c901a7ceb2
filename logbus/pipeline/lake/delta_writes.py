"""Commits to the log of a Delta Lake table, by delta-rs; each is tried once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.delta_actions import KIND, AddedFile, unknown_type
from logbus.pipeline.lake.object_store import store_options
from logbus.pipeline.lake.schema_evolution import has_more, merged_schema
from logbus.pipeline.lake.store_patience import waiting

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RUST_FRAMES = re.compile(r"(?:Backtrace:)?\s*\n\s*0: .*", re.DOTALL)
"""A list of functions, by numbers, with which some of delta-rs' messages end."""


def storage_options(url: str, given: Mapping[str, str]) -> dict[str, str]:
    """
    The options of a store as delta-rs takes them.

    :raise LakeError: no store is known for the URL's scheme.
    :raise OptionError: an option is none of the store's.
    """
    options = store_options(url, given)
    if endpoint := options.pop("AWS_ENDPOINT_URL_S3", "") or options.get("AWS_ENDPOINT_URL", ""):
        options["AWS_ENDPOINT_URL"] = endpoint
        if endpoint.startswith("http:"):
            options["AWS_ALLOW_HTTP"] = "true"
    if options.get("AZURE_STORAGE_ENDPOINT", "").startswith("http:"):
        options["AZURE_ALLOW_HTTP"] = "true"
    if emulator := options.pop("STORAGE_EMULATOR_HOST", ""):
        address = emulator if "://" in emulator else f"http://{emulator}"
        account = {"gcs_base_url": address, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        options["GOOGLE_SERVICE_ACCOUNT_KEY"] = json.dumps(account)
        options["GOOGLE_ALLOW_HTTP"] = "true"
    return options


def properties_of(
    kind: str, transactions: Mapping[str, int], more: Mapping[str, Any] | None = None
) -> CommitProperties:
    """
    What a commit says of itself.

    :param transactions: versions by the identifiers of applications.
    :param more: of the custom metadata.
    """
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={KIND: kind, **(more or {})},
        max_commit_retries=0,
        app_transactions=[Transaction(name, version) for name, version in transactions.items()],
    )


def create(
    url: str,
    options: Mapping[str, str],
    schema: Any,
    directories: Sequence[str],
    properties: CommitProperties,
    added: Sequence[AddedFile] = (),
    now_ms: int = 0,
) -> None:
    """
    Make a table, with its first files.

    :param options: see :func:`storage_options`;  ``schema``: Spark's JSON.
    :raise LakeError: Delta Lake lacks a type; it names the column.
    """
    from deltalake.transaction import create_table_with_add_actions

    with waiting(url, "to create it"):
        create_table_with_add_actions(
            url,
            delta_schema(url, schema),
            [_action(each, now_ms) for each in added],
            mode="error",
            partition_by=list(directories),
            storage_options=dict(options),
            commit_properties=properties,
        )


def widen(url: str, table: DeltaTable, schema: Any, properties: CommitProperties) -> bool:
    """
    Add columns and fields of new rows' schema to the table.

    :returns: whether there were any.
    :raise LakeError: a column would change its type, or Delta Lake lacks one.
    """
    from deltalake import Field

    now = json.loads(table.schema().to_json())
    known = {each["name"]: each for each in now["fields"]}
    wanted = merged_schema(url, now, schema)["fields"]
    more = [each for each in wanted if has_more(known.get(each["name"]), each)]
    if not more:
        return False
    delta_schema(url, {"fields": more})
    with waiting(url, "to add columns"):
        table.alter.add_columns(
            [Field.from_json(json.dumps(_nullable(each))) for each in more], commit_properties=properties
        )
    return True


def failures() -> tuple[type[Exception], ...]:
    """What a commit may fail with though it may have been made."""
    from deltalake.exceptions import DeltaError

    return DeltaError, OSError


def transaction(url: str, table: DeltaTable, name: str) -> int | None:
    """
    The version of a transaction identifier; None: it has none.

    :raise LakeError: the log cannot be read, which delta-rs does once more for this.
    """
    try:
        with waiting(url, "to read its log"):
            return table.transaction_version(name)
    except failures() as e:
        raise unreadable(url, e) from e


def unreadable(url: str, error: BaseException) -> LakeError:
    """The error of a table whose log delta-rs could not read."""
    return LakeError(f"{url}: its log cannot be read: {failure_text(error)}")


def failure_text(error: BaseException) -> str:
    """What an error of delta-rs says, on one line, without colours and without the names of its functions."""
    plain = _RUST_FRAMES.sub("", _COLOURS.sub("", str(error))).replace(
        " \N{DOWNWARDS ARROW WITH TIP RIGHTWARDS} ", ": "
    )
    return " ".join(plain.split())


def append(table: DeltaTable, added: Sequence[AddedFile], properties: CommitProperties, now_ms: int) -> None:
    """Commit files; one of :func:`failures` may mean that this was made nevertheless."""
    with waiting(table.table_uri, "a commit"):
        table.create_write_transaction(
            [_action(each, now_ms) for each in added],
            "append",
            table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=properties,
        )


def _action(file: AddedFile, now_ms: int) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size, dict(file.partition), now_ms, True, file.statistics)


def delta_schema(url: str, schema: Any) -> Any:
    """
    A schema in Spark's JSON as a ``deltalake.Schema``; all columns may be null.

    :raise LakeError: Delta Lake lacks a type; it names the column.
    """
    from deltalake import Field, Schema

    for each in schema["fields"]:
        if unknown := unknown_type(each["type"]):
            raise LakeError(f"{url}: Delta Lake has no type for column {each['name']!r}, which is {unknown}")
    return Schema([Field.from_json(json.dumps(_nullable(each))) for each in schema["fields"]])


def _nullable(each: Any) -> Any:
    """A field that may be null, as are its own: older rows may lack it."""
    return {**each, "nullable": True, "metadata": {}, "type": _nullable_type(each["type"])}


def _nullable_type(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    made = {key: _nullable_type(value) for key, value in kind.items()}
    if kind["type"] == "struct":
        made["fields"] = [_nullable(each) for each in kind["fields"]]
    return {key: True if key in ("containsNull", "valueContainsNull") else value for key, value in made.items()}
