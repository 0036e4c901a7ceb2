"""
A page with one form, whose fields keep what was typed when something is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from twisted.web.template import tags

from logbus.console.api_client import ApiRefusal
from logbus.console.elements import button_link, card, refusal
from logbus.console.page import Content, Page


def form_page(
    title: str,
    heading: str,
    fields: Content,
    *,
    action: str,
    trail: Sequence[tuple[str, str]],
    is_wrong: bool,
    refused: ApiRefusal | None,
    notice: Any = "",
    button: str = "Review",
    cancel: str = "",
    more: Content = (),
) -> Page:
    """
    Return the page.

    :param heading: of the form.
    :param action: the path that the form is posted to.
    :param trail: of the page; the first link is its section.
    :param is_wrong: whether a field has an error.
    :param refused: the refusal of the change, if it was tried.
    :param notice: stands above the form.
    :param cancel: where its link to cancel leads; default: to the last one of ``trail``.
    :param more: what follows the form.
    """
    status = HTTPStatus.BAD_REQUEST if is_wrong else HTTPStatus.OK
    buttons = tags.div(
        tags.button(button, type="submit", class_="primary"),
        button_link(cancel or trail[-1][1], "Cancel"),
        class_="buttons",
    )
    return Page(
        title,
        trail[0][1],
        [
            "" if refused is None else refusal(refused),
            notice,
            card(heading, tags.form(*fields, buttons, method="post", action=action)),
            *more,
        ],
        trail=trail,
        status=status if refused is None else refused.status,
    )
