"""``kafka-dump-log``: prints segments and their indexes (Kafka: DumpLogSegments)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from logbus.cli.dump.file_dump import dump
from logbus.cli.dump.index_dump import Mapped
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.errors import LogbusError
from logbus.records.batch import HEADER_SIZE, BatchHeader, batch_problem, decode_batch, decode_marker, read_header
from logbus.records.compression import Codec
from logbus.records.record import Record
from logbus.storage import file_names

_INTERNAL = "'logbus dump-log --records' decodes the records of internal topics"
_CHECKED = "'logbus dump-log --verify --deep' compares indexes with their segment"

PARSER = OptionParser(
    "Prints segments and their indexes.",
    [
        Option("files", "file1, file2, ...", "Files, separated by commas: *.log, *.index and *.timeindex."),
        Option("print-data-log", help="Also print the records of segments."),
        Option("deep-iteration", help="Also print the records of segments, without keys and values."),
        Option("max-bytes", "size", "At most so many bytes of a segment.", bits=32),
        Option("max-message-size", "size", "Accepted, without an effect.", bits=32),
        Option("index-sanity-check", refusal=_CHECKED),
        Option("verify-index-only", refusal=_CHECKED),
        Option("skip-record-metadata", refusal="'logbus consume --format %v' prints values only"),
        Option("offsets-decoder", refusal=_INTERNAL),
        Option("transaction-log-decoder", refusal=_INTERNAL),
        Option("cluster-metadata-decoder", refusal="there is no log of metadata here"),
        Option("remote-log-metadata-decoder", refusal=_INTERNAL),
        Option("share-group-state-decoder", refusal="there are no share groups here"),
        Option("key-decoder-class", "class", refusal="classes are Java; keys are printed as text"),
        Option("value-decoder-class", "class", refusal="classes are Java; values are printed as text"),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    names = [each.strip() for each in options.text("files").split(",") if each.strip()]
    if not names:
        raise UsageError('Missing required argument "[files]"')
    with_records, with_data = options.has("deep-iteration"), options.has("print-data-log")
    status = 0
    for name in names:
        path = Path(name)
        say(f"Dumping {name}")
        try:
            for line in _lines(path, with_records or with_data, with_data, options.integer("max-bytes")):
                say(line)
        except OSError as e:
            complain(f"{name}: {e.strerror}")
            status = 1
    return status


def _lines(path: Path, with_records: bool, with_data: bool, most: int | None) -> Iterator[str]:
    if path.suffix == file_names.LOG:
        if file_names.base_offset_of(path.name, file_names.LOG) is None:
            raise UsageError(f"{path} is no segment, whose name is its first offset: 00000000000000000000.log")
        yield from segment_lines(path, with_records, with_data, most)
    elif path.suffix == file_names.OFFSET_INDEX:
        for item in dump(path):
            yield f"offset: {item.get('offset')} position: {item.get('segment_position')}"
    elif path.suffix == file_names.TIME_INDEX:
        for item in dump(path):
            yield f"timestamp: {item.get('timestamp')} offset: {item.get('offset')}"
    elif path.suffix in (file_names.SNAPSHOT, file_names.TRANSACTION_INDEX):
        raise UsageError(f"{path} is not served; 'logbus dump-log {path}' prints it")
    else:
        yield f"Ignoring unknown file {path}"


def segment_lines(path: Path, with_records: bool, with_data: bool, most: int | None = None) -> Iterator[str]:
    """
    The lines about a segment.

    :param with_data: print keys and values of records, too.
    :param most: bytes that are looked at; None: all.
    :raises OSError: it cannot be read.
    """
    yield f"Log starting offset: {file_names.base_offset_of(path.name, file_names.LOG)}"
    with Mapped(path) as data:
        position, end = 0, len(data)
        while end - position >= HEADER_SIZE and (most is None or position < most):
            header = read_header(data, position)
            if header.magic != 2 or not HEADER_SIZE <= header.size <= end - position:
                break
            problem = batch_problem(data, position, header)
            yield batch_line(header, position, is_valid=problem is None)
            if with_records and problem is None:
                try:
                    found = decode_batch(data, position, header=header)
                except LogbusError as e:
                    yield f"| its records cannot be read: {e}"
                else:
                    yield from (record_line(header, each, with_data) for each in found)
            position += header.size
        if position < end and most is None:
            yield f"Found {end - position} invalid bytes at the end of {path.name}"


def batch_line(header: BatchHeader, position: int, *, is_valid: bool) -> str:
    """The line about a batch."""
    last_sequence = header.base_sequence + header.last_offset_delta if header.has_producer_id else -1
    horizon = "OptionalLong.empty" if header.delete_horizon is None else f"OptionalLong[{header.delete_horizon}]"
    codec = next((each.name.lower() for each in Codec if each.value == header.codec), str(header.codec))
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_java(header.transactional)} isControl: {_java(header.control)} "
        f"deleteHorizonMs: {horizon} position: {position} {_time(header)}: {header.max_timestamp} "
        f"size: {header.size} magic: {header.magic} compresscodec: {codec} crc: {header.crc} isvalid: {_java(is_valid)}"
    )


def record_line(header: BatchHeader, record: Record, with_data: bool) -> str:
    """The line about a record."""
    offset, timestamp, key, value, headers = record
    numbered = header.has_producer_id and not header.control
    sequence = header.base_sequence + offset - header.base_offset if numbered else -1
    line = (
        f"| offset: {offset} {_time(header)}: {timestamp} keySize: {_size(key)} valueSize: {_size(value)} "
        f"sequence: {sequence} headerKeys: [{','.join(name for name, _ in headers)}]"
    )
    if header.control:
        try:
            marker = decode_marker(record)
        except LogbusError:
            marker = None
        if marker is not None:
            line += f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    elif with_data:
        line += "" if key is None else f" key: {key.decode(errors='replace')}"
        line += "" if value is None else f" payload: {value.decode(errors='replace')}"
    return line


def _time(header: BatchHeader) -> str:
    return "LogAppendTime" if header.log_append_time else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _java(flag: bool) -> str:
    return "true" if flag else "false"
