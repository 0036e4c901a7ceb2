"""Explains why a store refuses access: which credentials were used, and what to set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from logbus.pipeline.lake.object_store import GCS_SCHEMES, S3_SCHEMES, split_scheme

_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|REQUEST_TIME_TOO_SKEWED|PERMISSION_DENIED|"
    r"UNAUTHENTICATED|(?:HTTP status|Azure Error: \[\w*\]) 40[13]\b"
)
"""In an error of Arrow's: the store has answered with the status 401 or 403."""
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN")
_SIGNATURE = re.compile(r"""\bsig=[^&\s'"]*""")
_BY = "in the environment or by --store-option"


def is_refusal(error: str) -> bool:
    """Whether an error of Arrow's says that a store has refused access."""
    return _REFUSED.search(error) is not None


def store_problem(url: str, options: Mapping[str, str], error: str, environ: Mapping[str, str] = os.environ) -> str:
    """
    One line about a store that did not answer the first request as it should, without secrets.

    :param options: of the store (:func:`.store_options`).
    :param error: Arrow's.
    :param environ: has what Google's client takes, which is no option.
    """
    if is_refusal(error):
        used, advice = _credentials(url, options, environ)
        return f"{url}: {_place(options)} refuses access with {used}; {advice}"
    # Google's client adds all of it once more, for programs; Azure's, an empty line and a number.
    why = re.split(r" error_info=|\s*\n\s*Request ID:", error)[0]
    for secret in filter(None, map(options.get, _SECRETS)):
        why = why.replace(secret, "...")
    # Azure's client puts the parts of a token that begins with "?" in another order.
    why = _SIGNATURE.sub("sig=...", why)
    return f"{url} cannot be listed: {' '.join(why.split())}"


def _place(options: Mapping[str, str]) -> str:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_ENDPOINT")
    endpoint = next(filter(None, map(options.get, names)), "")
    return f"the store at {endpoint}" if endpoint else "the store"


def _credentials(url: str, options: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, str]:
    """Which were used, and what to do."""
    scheme, rest = split_scheme(url)
    rights = "that may list, read and write there"
    if scheme in S3_SCHEMES:
        advice = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, {_BY}, to a key {rights}"
        if not (key := options.get("AWS_ACCESS_KEY_ID")):
            return "a profile's or this machine's credentials, or none, since AWS_ACCESS_KEY_ID is not set", advice
        if "AWS_SESSION_TOKEN" in options:
            return f"AWS_ACCESS_KEY_ID={key} with AWS_SESSION_TOKEN", f"the token may have expired, or {advice}"
        return f"AWS_ACCESS_KEY_ID={key}", advice
    if scheme in GCS_SCHEMES:
        if "STORAGE_EMULATOR_HOST" in options:
            return (
                "no credentials",
                "STORAGE_EMULATOR_HOST is for emulators; without it, Google's own credentials are used",
            )
        advice = f"set GOOGLE_APPLICATION_CREDENTIALS in the environment to the file of an account {rights}"
        if file := environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            return f"GOOGLE_APPLICATION_CREDENTIALS={file}", advice
        return "gcloud's credentials, or this machine's, since GOOGLE_APPLICATION_CREDENTIALS is not set", advice
    host = rest.lstrip("/").partition("/")[0].partition("@")[2]
    account = host.partition(".")[0] or options.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        if name in options:
            return f"{name} of the account {account}", f"set it, {_BY}, to one {rights}"
    return (
        f"the environment's credentials, or this machine's, for the account {account}",
        f"set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, {_BY}, to one {rights}",
    )
