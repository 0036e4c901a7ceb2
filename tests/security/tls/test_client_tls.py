"""What a client says about the certificate of a broker."""

from __future__ import annotations

from OpenSSL import SSL, crypto
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.broker_connections import refusal
from logbus.security.tls.client_tls import ClientTls
from tests.certificates import Authority

ROOT, STRANGERS = Authority.new("CN=Root CA"), Authority.new("CN=Strangers CA")


class BrokerCertificateTests(SynchronousTestCase):
    def refused(self, authority: Authority, days: float) -> str:
        """
        Connect to a broker whose certificate is of an authority, and valid for so many days from now on.

        :return: what the client says.
        """
        issued = authority.issue("CN=localhost", days=days)
        serving = SSL.Context(SSL.TLS_SERVER_METHOD)
        serving.use_certificate(crypto.X509.from_cryptography(issued.certificate))
        serving.use_privatekey(crypto.PKey.from_cryptography_key(issued.key))
        tls = ClientTls.of({"security.protocol": "SSL", "ssl.truststore.certificates": ROOT.pem})
        client, server = SSL.Connection(tls.client_context, None), SSL.Connection(serving, None)
        client.set_connect_state()
        server.set_accept_state()
        try:
            for end, other in ((client, server), (server, client)) * 2:
                try:
                    end.do_handshake()
                except SSL.WantReadError:
                    pass
                other.bio_write(end.bio_read(1 << 16))
        except SSL.Error as e:
            lost = ConnectionError()
            lost.__cause__ = e
            return str(refusal("localhost", 9093, lost))
        return ""

    def test_valid(self) -> None:
        """One of a trusted authority is taken."""
        self.assertEqual(self.refused(ROOT, 30), "")

    def test_expired(self) -> None:
        """One that has expired is said to be so: nothing is wrong with the trust store then."""
        self.assertEqual(
            self.refused(ROOT, -1), "no TLS with localhost:9093: certificate verify failed: certificate has expired"
        )

    def test_unknown_authority(self) -> None:
        """One of an authority that is not trusted is a matter of the trust store."""
        self.assertEqual(
            self.refused(STRANGERS, 30),
            "no TLS with localhost:9093: certificate verify failed; see ssl.truststore.location",
        )
