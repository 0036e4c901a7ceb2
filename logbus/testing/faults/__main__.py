"""
``python -m logbus.testing.faults [API...]`` shows where errors go in the answers of APIs, in their latest versions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from logbus.testing.faults.error_places import error_places
from logbus.testing.requests.apis import WrongRequest, api_key_of, apis_by_name
from logbus.wire.messages import api, api_name


def main(names: Sequence[str]) -> None:
    """Print a line for each API: where errors of elements go, and where those of the whole request, if elsewhere."""
    for name in names or apis_by_name():
        key = api_key_of(name)
        if key is not None:
            places = reversed(error_places(key, api(key).versions.max))
            print(f"{api_name(key):29}{' or '.join(map(str, places))}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except WrongRequest as e:
        sys.exit(str(e))
