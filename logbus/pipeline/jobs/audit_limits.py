"""The limits on unreadable events and duplicates in an audit. Pure."""

from __future__ import annotations

from attrs import fields, frozen

from logbus.pipeline.errors import OptionError


@frozen
class AuditLimits:
    """
    The shares that an audit accepts; with more it fails.

    :ivar max_unreadable_share: of the records in the topic of monitoring events, those that are none. What they may
        have counted is not compared.
    :ivar max_duplicate_share: of the counted records, those beyond the published ones, and rows of tables whose offset
        another row has.
    :raise OptionError: a share is not from 0 to 1.
    """

    max_unreadable_share: float = 0.0
    max_duplicate_share: float = 0.0

    def __attrs_post_init__(self) -> None:
        for each in fields(AuditLimits):
            share = getattr(self, each.name)
            if not 0 <= share <= 1:
                raise OptionError(f"{each.name} is {share}; it takes a share of the records, from 0 to 1, such as 0.01")

    def exceeded(self, *, events: int, unreadable: int, counted: int, surplus: int) -> list[str]:
        """
        Sentences about the limits that are exceeded, each with what to do.

        :param events: monitoring events read;  ``unreadable``: records that are none.
        :param counted: records counted;  ``surplus``: those of them that are there more than once.
        """
        found = []
        if unreadable > self.max_unreadable_share * (events + unreadable):
            found.append(
                f"{unreadable} of the {events + unreadable} records are no monitoring events "
                f"({unreadable / (events + unreadable):.1%}), more than max_unreadable_share "
                f"{self.max_unreadable_share:g} (--max-unreadable-share). What they count is not compared: name "
                "the registry of framed events (--schema-registry), keep other records out of the "
                "topic, begin behind them (--since), or allow a greater share"
            )
        if surplus > self.max_duplicate_share * counted:
            found.append(
                f"{surplus} of the {counted} counted records are there more than once "
                f"({surplus / max(counted, surplus):.1%}), more than max_duplicate_share {self.max_duplicate_share:g} "
                "(--max-duplicate-share): see what the duplicated windows have in common, such as a restart of an "
                "application that reads at least once; begin behind them (--since), or allow a greater share"
            )
        return found
