"""
Finds what is wrong with a cluster, as its brokers report it over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from logbus.cli.doctor.finding import Finding, Weight
from logbus.errors import LogbusError, short_reason

SECONDS = 10.0
MAX_PAGES = 20

Ask = Callable[[str], Any]
"""Returns what a path answers, as a JSON value."""


class ClusterSilent(LogbusError):
    """The cluster does not answer, or not as a broker does."""


def ask_over_http(address: str) -> Ask:
    """
    Return what asks an admin listener.

    :param address: ``http://HOST:PORT``; a user and a password may be in it.
    """
    from base64 import b64encode
    from urllib.error import HTTPError, URLError
    from urllib.parse import unquote, urlsplit
    from urllib.request import Request, urlopen

    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ClusterSilent(f"--admin {address}: expected http://HOST:PORT or https://HOST:PORT")
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + b64encode(user.encode()).decode()

    def ask(path: str) -> Any:
        try:
            with urlopen(Request(place + path, headers=headers), timeout=SECONDS) as answer:
                return json.load(answer)
        except HTTPError as e:
            if e.code in (401, 403):
                raise ClusterSilent(
                    f"{place}{path}: {e.code}: it needs a user with Describe on the cluster: "
                    "--admin http://USER:PASSWORD@HOST:PORT"
                ) from None
            raise ClusterSilent(f"{place}{path}: {e.code} {e.reason}") from None
        except (URLError, OSError) as e:
            raise ClusterSilent(f"{place}: no answer: {short_reason(getattr(e, 'reason', e))}") from None
        except ValueError:
            raise ClusterSilent(
                f"{place}{path}: the answer is no JSON: is this the admin listener of a broker?"
            ) from None

    return ask


def cluster_findings(ask: Ask) -> Iterator[Finding]:
    """
    Say what a cluster says is wrong with it.

    :raise ClusterSilent: it does not answer.
    """
    brokers = ask("/api/v1/brokers")["items"]
    levels = {broker["id"]: broker["feature_level"] for broker in brokers}
    if len(set(levels.values())) > 1:
        newest = max(levels.values())
        old = ", ".join(str(number) for number, level in sorted(levels.items()) if level < newest)
        yield Finding(
            Weight.BETTER,
            f"brokers {old}",
            "They run an older version than the others",
            "The cluster does without what only newer ones can.",
            "Finish the upgrade (docs/howto/upgrade.rst).",
        )
    if ask("/api/v1/cluster")["controller"] is None:
        yield Finding(
            Weight.BROKEN,
            "controller",
            "There is none",
            "No leader is elected, and nothing can be created or changed.",
            "Look at the metadata store and the logs of all brokers.",
        )
    after = ""
    for _ in range(MAX_PAGES):
        page = ask(f"/api/v1/conditions{after}")
        for row in page["items"]:
            yield Finding(
                Weight.BROKEN if row["severity"] == "critical" else Weight.RISK,
                f"broker {row['broker']}, {row['subject']}",
                f"{row['condition']}: {row['message']}",
                row["meaning"],
                row["advice"],
            )
        for silent in page["unanswered"] if not after else ():
            yield Finding(
                Weight.RISK,
                f"broker {silent['broker']}",
                silent["reason"],
                "What is wrong with it is not known.",
                "Look at its log.",
            )
        if page["next"] is None:
            break
        after = f"?after={quote(page['next'], safe='')}"
