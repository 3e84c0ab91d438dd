"""Verifies webhook deliveries, in the backends of vendors."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Union

from .shape import parse_json

_DEFAULT_TOLERANCE_S = 300


class WebhookVerificationError(Exception):
    """A delivery that must not be acted on: answer it with 400.

    Its ``reason`` is one of these:

    - ``no_secret``: no secret was given, or an empty one;
    - ``malformed_header``: the header is missing, or has no time or no signature of the right form;
    - ``signature_mismatch``: signed with another secret, or the body was changed (also by parsing and serialising it);
    - ``timestamp_outside_tolerance``: signed too long ago, or in the future: perhaps a replay;
    - ``malformed_body``: the signature is valid, but the body is not an event.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def verify_webhook(
    raw_body: Union[bytes, bytearray, memoryview, str],
    given: Union[Mapping[str, Any], str, None],
    secrets: Union[str, Sequence[str]],
    *,
    tolerance_seconds: float = _DEFAULT_TOLERANCE_S,
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Verifies a webhook delivery and returns its event. Signatures are compared in constant time.

    Args:
        raw_body: the request's body exactly as received: bytes, or the text decoded as UTF-8
        given: all headers of the request, or the ``Webhook-Signature`` header alone if the endpoint has the default signature. An
            endpoint with the signature ``standard`` needs all headers
        secrets: the endpoint's secret (``whsec_…``); several while one is being rotated
        tolerance_seconds: largest difference between the time of the signature and the current time, in either direction
        clock: the current time in seconds since 1970 UTC

    Returns:
        the event; ignore types you do not know

    Raises:
        WebhookVerificationError: with a ``reason``, if the delivery must not be trusted

    Example:
        >>> event = verify_webhook(request.get_data(), request.headers, secret)
        >>> if event["type"] == "licence.revoked":
        ...     close_account(event["data"]["object"]["licence_id"])
    """
    texts = [secrets] if isinstance(secrets, str) else list(secrets)
    if not texts or "" in texts:
        raise WebhookVerificationError("no_secret", "no signing secret was given")
    signature = _read_headers(given)
    body = raw_body.encode() if isinstance(raw_body, str) else bytes(raw_body)
    keys = [key for key in map(signature.key_of, texts) if key is not None]
    if not _is_signed_by(keys, signature.prefix.encode() + body, signature.signatures):
        raise WebhookVerificationError("signature_mismatch", "no signature matches the raw body and a secret")
    age = clock() - int(signature.time)
    if not abs(age) <= tolerance_seconds:
        message = f"signed {round(age)} s ago; the tolerance is {tolerance_seconds} s in either direction"
        raise WebhookVerificationError("timestamp_outside_tolerance", message)
    return _read_event(body)


@dataclass(frozen=True)
class _Signature:
    time: str
    prefix: str
    """The signed text before the body."""
    signatures: Sequence[bytes]
    key_of: Callable[[str], Union[bytes, None]]
    """The key of a secret; None if the secret is of another kind."""


def _read_headers(given: Union[Mapping[str, Any], str, None]) -> _Signature:
    headers = {"webhook-signature": given} if given is None or isinstance(given, str) else given
    found = {str(name).lower(): str(value) for name, value in headers.items() if value is not None}
    header = found.get("webhook-signature", "")
    if not re.search(r"(?:^|\s)v1,", header):
        return _read_default(header)
    return _read_standard(header, found.get("webhook-id", ""), found.get("webhook-timestamp", ""))


_TIME = re.compile("[0-9]{1,15}")


def _read_default(header: str) -> _Signature:
    parts = [part.strip() for part in header.split(",")]
    times = [part[2:] for part in parts if part.startswith("t=")]
    signatures = [part[3:] for part in parts if part.startswith("v1=") and re.fullmatch("[0-9a-f]{64}", part[3:])]
    if len(times) != 1 or not _TIME.fullmatch(times[0]) or not signatures:
        raise WebhookVerificationError("malformed_header", "Webhook-Signature is not of the form t=…,v1=…")
    return _Signature(times[0], f"{times[0]}.", [bytes.fromhex(each) for each in signatures], str.encode)


_SIGNATURE = re.compile("v1,([A-Za-z0-9+/]{43}=)")


def _read_standard(header: str, event_id: str, timestamp: str) -> _Signature:
    """The signature of Standard Webhooks, of an endpoint with ``signature`` ``standard``."""
    found = [each for each in map(_SIGNATURE.fullmatch, header.split()) if each]
    if not event_id or not _TIME.fullmatch(timestamp) or not found:
        message = "webhook-id, webhook-timestamp or webhook-signature is missing or malformed"
        raise WebhookVerificationError("malformed_header", message)

    def key_of(secret: str) -> Union[bytes, None]:
        try:
            return base64.b64decode(re.sub("^whsec_", "", secret), validate=True) or None
        except ValueError:
            return None

    signatures = [base64.b64decode(each[1]) for each in found]
    return _Signature(timestamp, f"{event_id}.{timestamp}.", signatures, key_of)


def _is_signed_by(keys: Sequence[bytes], signed: bytes, signatures: Sequence[bytes]) -> bool:
    """Every pair is tried, so that the duration does not reveal which pair matches."""
    verdicts = [
        hmac.compare_digest(hmac.new(key, signed, hashlib.sha256).digest(), signature)
        for key in keys
        for signature in signatures
    ]
    return any(verdicts)


def _read_event(body: bytes) -> dict[str, Any]:
    try:
        event: dict[str, Any] = parse_json(body.decode("utf-8"))
    except ValueError as error:
        raise WebhookVerificationError("malformed_body", "the body is not JSON") from error
    is_named = isinstance(event, dict) and isinstance(event.get("id"), str) and isinstance(event.get("type"), str)
    if not is_named or not isinstance(event.get("data"), dict):
        raise WebhookVerificationError("malformed_body", "the body is not an event")
    return event
