"""
Bounds the number of array elements and tagged fields in a message.

Bytes alone do not bound the work: 4 MB on the wire can hold a million structs, 380 MB of Python objects and seconds of
a blocked reactor. So elements are counted, over all arrays of a message together, before objects are built.
"""

from __future__ import annotations

REQUEST_ELEMENTS = 100_000
UNAUTHENTICATED_ELEMENTS = 1_000
RESPONSE_ELEMENTS = 4_000_000

# The densest honest messages are lists of partition numbers, four bytes each; short names get some room besides.
BYTES_PER_ELEMENT = 4
SMALL_MESSAGE_ELEMENTS = 64


def element_budget(size: int, limit: int = REQUEST_ELEMENTS) -> int:
    """
    Elements allowed in a message of ``size`` bytes: as many as a legitimate one of that size can have, at most
    ``limit``.

    :param size: bytes of the message (its frame's length will do).
    :param limit: :data:`REQUEST_ELEMENTS`, or :data:`UNAUTHENTICATED_ELEMENTS` before authentication, or
        :data:`RESPONSE_ELEMENTS` for a broker's responses.
    """
    budget = SMALL_MESSAGE_ELEMENTS + size // BYTES_PER_ELEMENT
    return budget if budget < limit else limit
