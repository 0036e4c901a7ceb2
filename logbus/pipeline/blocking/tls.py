"""Makes the TLS context of a client from PEM settings."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator

from logbus.pipeline.blocking.connection_settings import TlsSettings
from logbus.pipeline.errors import OptionError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def ssl_context(tls: TlsSettings) -> ssl.SSLContext:
    """
    The context that a connection's socket is wrapped with.

    :raises OptionError: a certificate or key cannot be read; names the option.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = [_VERSIONS[each] for each in tls.versions]
    made.minimum_version, made.maximum_version = min(versions), max(versions)
    made.check_hostname = tls.check_host
    if tls.ciphers is not None:
        ciphers = tls.ciphers.replace(",", ":")
        _trying("ssl.cipher.suites", lambda: made.set_ciphers(ciphers))
    if tls.trusted_file is not None:
        _trying("ssl.truststore.location", lambda: made.load_verify_locations(cafile=tls.trusted_file))
    elif tls.trusted is not None:
        _trying("ssl.truststore.certificates", lambda: made.load_verify_locations(cadata=tls.trusted))
    else:
        made.load_default_certs()
    password = tls.key_password or ""
    if tls.own_file is not None:
        own_file = tls.own_file
        _trying("ssl.keystore.location", lambda: made.load_cert_chain(own_file, password=password))
    elif tls.own_chain is not None and tls.own_key is not None:
        with _as_file(f"{tls.own_chain}\n{tls.own_key}\n") as path:
            _trying("ssl.keystore.key", lambda: made.load_cert_chain(path, password=password))
    return made


def _trying(option: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as e:
        raise OptionError(f"option 'kafka.{option}' cannot be used: {e}") from None


@contextlib.contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """A temporary file, readable by this user only, since ``ssl`` loads keys from files only."""
    handle, path = tempfile.mkstemp(prefix="logbus-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)
