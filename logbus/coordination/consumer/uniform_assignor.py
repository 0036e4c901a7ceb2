"""
The algorithm of the ``uniform`` assignor (KIP-848; Kafka: UniformAssignor): equal shares, and few moves. Pure.

If all members have the same subscription, shares differ by at most one, and no partition moves without need. If they
differ, partitions move one by one from the member with the most to the subscriber with the fewest, until no such move
makes two shares more equal. Racks are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from logbus.coordination.consumer.partition_sets import TopicId

Shares = dict[str, list[tuple[TopicId, int]]]
"""Partitions by member, during the assignment."""

PASSES = 20
"""Limit of passes over the topics to balance shares; two or three are enough in practice."""


def share_equally(kept: Shares, order: Sequence[str], free: Sequence[tuple[TopicId, int]]) -> None:
    """
    Assign ``free`` to members with the same subscription, after taking away what exceeds a fair share.

    :param kept: what each member has already; changed in place.
    :param order: the members; if shares are uneven, the first ones get one more.
    """
    total = len(free) + sum(map(len, kept.values()))
    least, more = divmod(total, len(order))
    pool = list(free)
    quotas: dict[str, int] = {}
    # A remaining partition stays with a member that has more than its share, rather than moving to another.
    for member in sorted(order, key=lambda member: -len(kept[member])):
        quotas[member] = least + (1 if more > 0 and len(kept[member]) > least else 0)
        more -= quotas[member] - least
    for member in order:
        if more > 0 and quotas[member] == least:
            quotas[member] += 1
            more -= 1
    for member in order:
        surplus = len(kept[member]) - quotas[member]
        if surplus > 0:
            pool.extend(kept[member][-surplus:])
            del kept[member][-surplus:]
    pool.reverse()
    for member in order:
        while len(kept[member]) < quotas[member]:
            kept[member].append(pool.pop())


def share_by_subscription(
    kept: Shares,
    order: Sequence[str],
    free: Mapping[TopicId, Sequence[int]],
    wanted_by: Mapping[TopicId, Sequence[str]],
) -> None:
    """
    Assign ``free`` to members with different subscriptions, then balance the shares.

    :param kept: what each member has already; changed in place.
    :param wanted_by: the subscribers of each topic, in their order.
    """
    rank = {member: number for number, member in enumerate(order)}
    # Topics with few subscribers first: members with more topics can be given other partitions.
    topics = sorted(wanted_by, key=lambda topic_id: (len(wanted_by[topic_id]), topic_id))
    for topic_id in topics:
        if not free.get(topic_id):
            continue
        heap = [(len(kept[member]), rank[member]) for member in wanted_by[topic_id]]
        heapify(heap)
        for number in free[topic_id]:
            load, member = heap[0]
            kept[order[member]].append((topic_id, number))
            heapreplace(heap, (load + 1, member))
    _even_out(kept, order, rank, topics, wanted_by)


def _even_out(
    kept: Shares,
    order: Sequence[str],
    rank: Mapping[str, int],
    topics: Sequence[TopicId],
    wanted_by: Mapping[TopicId, Sequence[str]],
) -> None:
    by_topic: dict[TopicId, dict[str, list[int]]] = {topic_id: {} for topic_id in topics}
    loads = {member: len(partitions) for member, partitions in kept.items()}
    for member in order:
        for topic_id, number in kept[member]:
            by_topic[topic_id].setdefault(member, []).append(number)
    for _ in range(PASSES):
        # Each move brings two shares closer together, so this ends without the limit, too.
        moves = sum(_even_out_topic(by_topic[t], order, rank, wanted_by[t], loads) for t in topics)
        if not moves:
            break
    for member in order:
        kept[member].clear()
    for topic_id in topics:
        for member, numbers in by_topic[topic_id].items():
            kept[member].extend((topic_id, number) for number in numbers)


def _even_out_topic(
    holders: dict[str, list[int]],
    order: Sequence[str],
    rank: Mapping[str, int],
    wanting: Sequence[str],
    loads: dict[str, int],
) -> int:
    """Move partitions of one topic from members with the most to those with the fewest; return the number of moves."""
    most = max((loads[member] for member, numbers in holders.items() if numbers), default=0)
    if most - min(loads[member] for member in wanting) < 2:
        return 0
    givers = [(-loads[member], rank[member]) for member, numbers in holders.items() if numbers]
    takers = [(loads[member], rank[member]) for member in wanting]
    heapify(givers)
    heapify(takers)
    moves = 0
    while givers:
        giver, taker = order[givers[0][1]], order[takers[0][1]]
        # Entries with an outdated load are corrected when they come to the top.
        if -givers[0][0] != loads[giver] or takers[0][0] != loads[taker]:
            if -givers[0][0] != loads[giver]:
                heapreplace(givers, (-loads[giver], rank[giver]))
            if takers[0][0] != loads[taker]:
                heapreplace(takers, (loads[taker], rank[taker]))
            continue
        if loads[giver] - loads[taker] < 2:
            break
        holders.setdefault(taker, []).append(holders[giver].pop())
        loads[giver] -= 1
        loads[taker] += 1
        moves += 1
        if holders[giver]:
            heapreplace(givers, (-loads[giver], rank[giver]))
        else:
            heappop(givers)
        heapreplace(takers, (loads[taker], rank[taker]))
        if len(holders[taker]) == 1:
            heappush(givers, (-loads[taker], rank[taker]))
    return moves
