"""Tests of :mod:`logbus.security.tls.distinguished_name`."""

from __future__ import annotations

from unittest import TestCase

from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from logbus.security.tls.distinguished_name import distinguished_name

JAVAS = {
    "303d310b300906035504061302435a31123010060355040a0c094f72672c20496e632e310a3008060355040b0c0178310e300c06035504030c"
    "05616c696365": r"CN=alice,OU=x,O=Org\, Inc.,C=CZ",
    "301d311b301906035504030c1220206c65616420616e6420747261696c2020": r"CN=\ \ lead and trail\ \ ",
    "301f311d301b06035504030c1423686173683d65712b706c757322713c3e3b5c62": r"CN=\#hash\=eq\+plus\"q\<\>\;\\b",
    "302a31283010060a0992268993f22c6401010c027531301406035504030c0dc5be6c75c5a56f75c48d6bc3bd": "UID=u1+CN=žluťoučký",
    "30223114301206092a864886f70d01090116056140622e63310a300806035504030c016d": (
        "CN=m,1.2.840.113549.1.9.1=#16056140622e63"
    ),
    "3081a731133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c65310c300a0603550409"
    "0c03532031310a300806035504070c014c310b300906035504080c025354310b3009060355040513023737310a3008060355040c0c0154310a"
    "3008060355042a0c0147310a300806035504040c0153310a3008060355042e13017131133011060a0992268993f22c6401010c03756964": (
        "UID=uid,2.5.4.46=#130171,2.5.4.4=#0c0153,2.5.4.42=#0c0147,2.5.4.12=#0c0154,2.5.4.5=#13023737,ST=ST,L=L,"
        "STREET=S 1,DC=example,DC=org"
    ),
    "3020310d300b06035504030c0461202062310f300d06032a03040c06637573746f6d": "1.2.3.4=#0c06637573746f6d,CN=a  b",
    "300f310d300b06035504030c04780d0a79": "CN=x\r\ny",
    "30163114301206035504030c0b612f6240632a645f653a66": "CN=a/b@c*d_e:f",
    "3011310f300d06035504031e060062006d0070": r"CN=\00b\00m\00p",
    "300e310c300a06035504031403743631": "CN=t61",
    "3010310e300c06035504030c056e756c0078": r"CN=nul\00x",
}
"""Names in DER, and what Java 17 calls them."""


class DistinguishedNameTests(TestCase):
    def test_as_java(self) -> None:
        """ACLs written for Kafka name the same users here."""
        for der, text in JAVAS.items():
            with self.subTest(text):
                self.assertEqual(distinguished_name(bytes.fromhex(der)), text)

    def test_bytes_that_are_no_text(self) -> None:
        """Bytes that are not UTF-8 are in hex, so that no two names become one."""
        self.assertEqual(distinguished_name(bytes.fromhex("300d310b300906035504031402e9e8")), "CN=#1402e9e8")

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64), min_size=2, max_size=2))
    def test_different_names(self, texts: list[str]) -> None:
        """Different names have different texts, whatever is in them."""
        first, second = (
            x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, text)]).public_bytes() for text in texts
        )
        self.assertEqual(first == second, distinguished_name(first) == distinguished_name(second))

    def test_cut_off(self) -> None:
        """What is not a name is an error."""
        for wrong in (b"0", b"\x30\x05\x31", b"\x30\x03\x31\x05\x30"):
            self.assertRaises(ValueError, distinguished_name, wrong)
