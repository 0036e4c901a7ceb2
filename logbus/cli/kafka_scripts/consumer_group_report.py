"""The tables of ``kafka-consumer-groups``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logbus.cli.groups.group_lag import GroupReport
from logbus.client.admin.group_results import GroupDescription, GroupMember, ListedGroup
from logbus.coordination.offset_target import OffsetChange
from logbus.model import TopicPartition

_NONE = "-"


class Table:
    """
    Rows of text below a head; each column is at least as wide as it says, or as its longest value.

    :param widths: the least widths; 0: the column is not padded.
    """

    def __init__(self, head: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[object]]) -> None:
        self._rows = [list(head), *([_NONE if each is None else str(each) for each in row] for row in rows)]
        self._widths = [
            width and max(width, *(len(row[index]) for row in self._rows[1:] or self._rows))
            for index, width in enumerate(widths)
        ]

    def lines(self) -> list[str]:
        """The lines."""
        return [
            " ".join(value.ljust(width) for value, width in zip(row, self._widths, strict=True)) for row in self._rows
        ]


def list_lines(groups: Iterable[ListedGroup], *, types: bool, states: bool) -> list[str]:
    """The lines of ``--list``."""
    if not (types or states):
        return [group.group_id for group in groups]
    head, rows = ["GROUP"], [[group.group_id] for group in groups]
    for wanted, name, values in (
        (types, "TYPE", [group.type.capitalize() for group in groups]),
        (states, "STATE", [group.state for group in groups]),
    ):
        if wanted:
            head.append(name)
            for row, value in zip(rows, values, strict=True):
                row.append(value)
    return Table(head, [25, *[20] * (len(head) - 1)], rows).lines()


def offset_lines(report: GroupReport, *, verbose: bool) -> list[str]:
    """The lines of ``--describe --offsets``."""
    head = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    widths = [15, 15, 10, 15, 15, 15, 15]
    rows = list(_offset_rows(report))
    if not verbose:
        for each in (head, widths, *rows):
            del each[3]  # type: ignore[attr-defined]
    names, more, members = _member_columns(report.group, [row.pop() for row in rows])  # type: ignore[misc]
    rows = [[*row, *member] for row, member in zip(rows, members, strict=True)]
    return Table([*head, *names], [*widths, *more[:-1], 0], rows).lines()


def member_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    """The lines of ``--describe --members``."""
    names, widths, columns = _member_columns(group, group.members)
    head = ["GROUP", *names, "#PARTITIONS"]
    rows: list[list[object]] = [
        [group.group_id, *column, len(member.assignment)] for column, member in zip(columns, group.members, strict=True)
    ]
    widths = [15, *widths, 15]
    if verbose:
        head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
        for row, member in zip(rows, group.members, strict=True):
            row += [
                None if member.epoch < 0 else member.epoch,
                _assignment(member.assignment) or _NONE,
                None if group.assignment_epoch < 0 else group.assignment_epoch,
                _assignment(member.target or ()) or _NONE,
            ]
        return Table(head, widths, rows).lines()
    # A space is behind the last column, too.
    return [f"{line} " for line in Table(head, widths, rows).lines()]


def state_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    """The lines of ``--describe --state``."""
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    widths = [15, 25, 20, 20]
    node = group.coordinator
    row: list[object] = [
        group.group_id,
        f"{node.host}:{node.port}  ({node.node_id})",
        group.assignor or None,
        group.state,
    ]
    if verbose:
        head += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        widths += [15, 25]
        row += [
            None if group.epoch < 0 else group.epoch,
            None if group.assignment_epoch < 0 else group.assignment_epoch,
        ]
    return Table([*head, "#MEMBERS"], [*widths, 0], [[*row, len(group.members)]]).lines()


def reset_lines(changes: Mapping[str, Sequence[OffsetChange]]) -> list[str]:
    """The lines of ``--reset-offsets``."""
    rows = [
        [group_id, each.partition.topic, each.partition.partition, each.new]
        for group_id, theirs in changes.items()
        for each in theirs
    ]
    return Table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], [15, 15, 10, 0], rows).lines()


def deletion_lines(results: Mapping[TopicPartition, str | None]) -> list[str]:
    """
    The lines of ``--delete-offsets``.

    :param results: the error of each partition; None: there is none.
    """
    rows = [
        [each.topic, each.partition, "Successful".ljust(15) if error is None else f"Error: {error}"]
        for each, error in sorted(results.items())
    ]
    return Table(["TOPIC", "PARTITION", "STATUS".ljust(15)], [15, 10, 0], rows).lines()


def state_remark(group: GroupDescription) -> str | None:
    """What is said about the state of a group on standard error."""
    if group.state == "Empty":
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def _offset_rows(report: GroupReport) -> Iterator[list[object]]:
    """Rows, each with its member at the end."""
    group_id = report.group.group_id
    for each in report.partition_lags:
        epoch = None if each.leader_epoch < 0 else each.leader_epoch
        yield [group_id, *each.partition, epoch, each.offset, each.end, each.lag, each.member]
    for member in report.group.members:
        if not member.assignment:
            yield [group_id, None, None, None, None, None, None, member]


def _member_columns(
    group: GroupDescription, members: Iterable[GroupMember | None]
) -> tuple[list[str], list[int], list[list[object]]]:
    """The columns about members: their heads, widths and rows; GROUP-INSTANCE-ID if a member has one."""
    static = any(member.instance_id for member in group.members)
    head = ["CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if static else []), "HOST", "CLIENT-ID"]
    rows: list[list[object]] = []
    for member in members:
        if member is None:
            rows.append([None] * len(head))
            continue
        instance = [member.instance_id or None] if static else []
        rows.append([member.member_id, *instance, f"/{member.host}", member.client_id])
    return head, [15, *([17] if static else []), 15, 15], rows


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    """As in ``x:0,1;y:0``."""
    found: dict[str, list[str]] = {}
    for each in sorted(partitions):
        found.setdefault(each.topic, []).append(str(each.partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in found.items())
