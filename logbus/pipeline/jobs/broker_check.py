"""Checks before Spark is started that brokers answer, and that the topics and offsets of a job exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logbus.pipeline.blocking.patience import PATIENCE, telling, unsaid
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.source.offset_reader import OffsetReader
from logbus.pipeline.source.options import SourceOptions


def check_topics(
    options: SourceOptions,
    tell: Callable[[str], None],
    *,
    is_new: bool = True,
    must_match: bool = False,
    patience: float = PATIENCE,
    option: str = "--kafka",
) -> int | None:
    """
    Check that brokers answer, and that what is to be read exists.

    :returns: the number of offsets to read now; None: reading does not begin at the options' position.

    :param tell: is called with a message if no broker answers for some time, or not at the addresses they advertise.
    :param is_new: reading begins at the options' position; else at offsets that only Spark can read, and topics that
        are gone may have been read to their end.
    :param must_match: a pattern must match a topic: the job does not wait for one.
    :param patience: seconds until that message.
    :param option: of the command line, by which these connections get settings.
    :raises Unreachable: no broker answers.
    :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: a named topic or partition does not exist.
    :raises PipelineError: no topic matches the pattern, and one must.
    :raises OptionError: offsets are not of exactly the partitions that exist.
    """
    offset_reader = OffsetReader(options)
    try:
        where, left = _addresses(options.settings.bootstrap), options.settings.retry_timeout - patience
        then = f"; still trying for {left:g} s ({option} default.api.timeout.ms)" if left > 0 else ""

        def tell_why(sentence: str) -> None:
            problem = offset_reader.brokers.problem
            tell(f"{sentence}: {problem}{then}" if problem else f"{sentence}{then}")

        with unsaid(), telling(f"no broker has answered for {patience:g} s at {where}", tell_why, patience):
            offset_reader.brokers.metadata(())
        partitions = offset_reader.partitions(offset_reader.topics(() if is_new else None))
        if must_match and not partitions and (problem := offset_reader.no_match()):
            raise PipelineError(problem)
        if not is_new:
            return None
        named = _addresses((each.host, each.port) for each in offset_reader.brokers.nodes.values())
        silence = f"{where} has answered that the brokers are at {named}, and from there no answer has come for"
        advice = f"{silence} {patience:g} s{then}; see the brokers' advertised.listeners"
        with unsaid(), telling(advice, tell, patience):
            starts = offset_reader.resolve(options.starting, partitions, ending=False)
            ends = offset_reader.resolve(options.ending, partitions, ending=True)
        return sum(max(0, ends[each] - start) for each, start in starts.items())
    finally:
        offset_reader.brokers.release()


def _addresses(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in pairs)
