"""``python -m logbus.testing.faults`` shows where errors go in the answers of each API, in its latest version."""

from __future__ import annotations

from logbus.testing.faults.error_places import error_places
from logbus.testing.requests.apis import apis_by_name
from logbus.wire.messages import api


def main() -> None:
    """Print a line for each API: where errors of elements go, and where those of the whole request, if elsewhere."""
    for name, key in apis_by_name().items():
        places = error_places(key, api(key).versions.max)
        print(f"{name:29}{' or '.join(str(place) for place in reversed(places))}")


if __name__ == "__main__":
    main()
