"""Tests what is said of stores that refuse access; the stores are servers that refuse all."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.formats import table_before_spark
from logbus.pipeline.lake.store_refusal import store_problem

_ADVICE = "in the environment or by --store-option, to"
_RIGHTS = "that may list, read and write there"
_S3_ADVICE = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, {_ADVICE} a key {_RIGHTS}"
_SECRET = base64.b64encode(b"secret" * 10).decode()
_S3 = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": _SECRET}
_AZURE = {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}


class _Refusing(BaseHTTPRequestHandler):
    """Answers every request with its server's status."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("content-length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("s3a://b/lake", _S3, f"AWS_ACCESS_KEY_ID=me; {_S3_ADVICE}"),
        (
            "s3://b/lake",
            {**_S3, "AWS_SESSION_TOKEN": _SECRET},
            f"AWS_ACCESS_KEY_ID=me with AWS_SESSION_TOKEN; the token may have expired, or {_S3_ADVICE}",
        ),
        (
            "gs://b/lake",
            {},
            "no credentials; STORAGE_EMULATOR_HOST is for emulators; without it, Google's own credentials are used",
        ),
        (
            "abfss://b/lake",
            {**_AZURE, "AZURE_STORAGE_ACCOUNT_KEY": _SECRET},
            f"AZURE_STORAGE_ACCOUNT_KEY of the account acc; set it, {_ADVICE} one {_RIGHTS}",
        ),
        (
            "abfss://b/lake",
            {**_AZURE, "AZURE_STORAGE_SAS_TOKEN": f"sv=1&sig={_SECRET}"},
            f"AZURE_STORAGE_SAS_TOKEN of the account acc; set it, {_ADVICE} one {_RIGHTS}",
        ),
    ],
)
def test_refused(
    server: ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    url: str,
    options: dict[str, str],
    words: str,
) -> None:
    """The store, the credentials and what to set, before Spark starts; and nothing secret."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server.status = status  # type: ignore[attr-defined]
    place = f"http://127.0.0.1:{server.server_port}"
    if url.startswith("s3"):
        given = {**options, "AWS_ENDPOINT_URL": place}
    elif url.startswith("gs"):
        given = {**options, "STORAGE_EMULATOR_HOST": place}
    else:
        place += "/acc"
        given = {**options, "AZURE_STORAGE_ENDPOINT": place}
    with pytest.raises(LakeError) as refused:
        table_before_spark(url, "delta", given)
    assert str(refused.value) == f"{url}: the store at {place} refuses access with {words}"


def test_credentials_that_are_found() -> None:
    """Those of a profile or a machine are used where no key is given, which is said."""
    s3, gs = "AWS Error ACCESS_DENIED during HeadObject", "google::cloud::Status(PERMISSION_DENIED: no)"
    azure = "'https://acc.dfs.core.windows.net/b' failed. Azure Error: [AuthorizationFailure] 403 This request is not"
    for url, error, environ, words in (
        (
            "s3://b/lake",
            s3,
            {},
            "the store refuses access with a profile's or this machine's credentials, or none, sin",
        ),
        ("gs://b/lake", gs, {"GOOGLE_APPLICATION_CREDENTIALS": "/k.json"}, "with GOOGLE_APPLICATION_CREDENTIALS=/k.js"),
        ("gs://b/lake", gs, {}, "gcloud's credentials, or this machine's, since GOOGLE_APPLICATION_CREDENTIALS is not"),
        ("abfss://b@acc.dfs.core.windows.net/lake", azure, {}, "this machine's, for the account acc; set AZURE_STORAG"),
    ):
        said = store_problem(url, {}, error, environ)
        assert said.startswith(f"{url}: the store refuses access with ")
        assert words in said


def test_other_errors() -> None:
    """They are the store's own words, on one line, and without secrets."""
    token = "sv=1&sig=abc"
    error = f"Check of 'http://h/acc/{token}/b' failed. Azure Error: [] 400 Bad Request\n\nRequest ID: 7"
    said = store_problem("abfss://b/lake", {"AZURE_STORAGE_SAS_TOKEN": token}, error, {})
    assert (
        said == "abfss://b/lake cannot be listed: Check of 'http://h/acc/.../b' failed. Azure Error: [] 400 Bad Request"
    )
    error = "'http://h/acc/b?se=1&sig=SECRET%2Babc%3D&sv=1' failed"
    said = store_problem("abfss://b/lake", {"AZURE_STORAGE_SAS_TOKEN": "?sv=1&se=1&sig=SECRET%2Babc%3D"}, error, {})
    assert said == "abfss://b/lake cannot be listed: 'http://h/acc/b?se=1&sig=...&sv=1' failed"
    said = store_problem("s3://b/lake", {}, "AWS Error UNKNOWN (HTTP status 400) during HeadObject operation", {})
    assert said == "s3://b/lake cannot be listed: AWS Error UNKNOWN (HTTP status 400) during HeadObject operation"
