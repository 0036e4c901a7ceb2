"""Request and response headers, compared with kio's, and with invalid bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as PlainHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from kio.schema.response_header.v0.header import ResponseHeader as PlainResponse
from kio.schema.response_header.v1.header import ResponseHeader as TaggedResponse
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.wire import headers
from logbus.wire.encoder_runtime import EncodeError
from logbus.wire.headers import RequestHeader
from tests.wire import kio_oracle
from tests.wire.golden import octets

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


class RequestHeaderTests(SynchronousTestCase):
    """Versions 1 and 2."""

    @given(st.builds(RequestHeader, INT16, INT16, INT32, st.none() | st.text()), st.booleans())
    def test_beside_kio(self, header: RequestHeader, flexible: bool) -> None:
        """Both versions are kio's; the client id is never compact."""
        data = headers.encode_request_header(header, flexible)
        theirs = FlexibleHeader if flexible else PlainHeader
        entity = theirs(
            request_api_key=header.api_key,  # type: ignore[arg-type]
            request_api_version=header.api_version,  # type: ignore[arg-type]
            correlation_id=header.correlation_id,  # type: ignore[arg-type]
            client_id=header.client_id,
        )
        self.assertEqual(data, kio_oracle.write(entity))
        self.assertEqual(headers.decode_request_header(b"xx" + data + b"y", 2, flexible), (header, len(data) + 2))
        for end in range(len(data)):
            self.assertRaises(DecodeError, headers.decode_request_header, data[:end], 0, flexible)

    def test_unknown_tags(self) -> None:
        """Tags in the header are passed over."""
        data = octets("00 12 00 03 00 00 00 07  00 01 63  02 00 01 ff 05 00")
        self.assertEqual(headers.decode_request_header(data, 0, True), (RequestHeader(18, 3, 7, "c"), len(data)))

    def test_hostile(self) -> None:
        """Lengths below null, ids that are not UTF-8, tags without end."""
        head = "00 12 00 03 00 00 00 07"
        for rest in (
            "ff fe",
            "00 02 c3 28 00",
            "7f ff 61",
            "ff ff ff ff ff ff 0f",
            "ff ff 01 00 05",
            "ff ff 02 01 00 01 00",
        ):
            self.assertRaises(DecodeError, headers.decode_request_header, octets(f"{head} {rest}"), 0, True)

    def test_long_client_id(self) -> None:
        """A client id that has no length is refused before it is sent."""
        self.assertRaises(EncodeError, headers.encode_request_header, RequestHeader(1, 1, 1, "c" * 32768), False)


class ResponseHeaderTests(SynchronousTestCase):
    """Versions 0 and 1."""

    @given(INT32, st.booleans())
    def test_beside_kio(self, correlation_id: int, is_tagged: bool) -> None:
        """Both versions are kio's."""
        theirs = TaggedResponse if is_tagged else PlainResponse
        data = kio_oracle.write(theirs(correlation_id=correlation_id))  # type: ignore[arg-type]
        self.assertEqual(headers.decode_response_header(data + b"x", 0, is_tagged), (correlation_id, len(data)))
        for end in range(len(data)):
            self.assertRaises(DecodeError, headers.decode_response_header, data[:end], 0, is_tagged)

    def test_api_versions_is_plain(self) -> None:
        """The header of an ApiVersions response is version 0, whatever the body."""
        self.assertFalse(headers.response_is_tagged(18, True))
        self.assertTrue(headers.response_is_tagged(3, True))
        self.assertFalse(headers.response_is_tagged(3, False))
