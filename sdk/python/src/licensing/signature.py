"""Verifies one signed text: a compact JWS with Ed25519."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .shape import decode, parse_json

#: A public key as in a key set. ``kid`` and ``x``, the Ed25519 key in base64url, are used.
PublicKey = Mapping[str, Any]

#: The payload, or why there is none: ``unknown_key`` if the key is not among those given, perhaps a newer one, else ``forged``.
Read = Union[Mapping[str, Any], str]

_BASE64URL = re.compile("[A-Za-z0-9_-]*")


def verify(jws: str, keys: Iterable[PublicKey]) -> Read:
    """The payload of a compact JWS of the service. Only Ed25519 is accepted, whatever the header and the key claim."""
    try:
        header, payload, signature = jws.split(".")
        claimed = _object_in(header)
        kid = claimed.get("kid")
        key = next((key for key in keys if key.get("kid") == kid), None)
        if kid is None or key is None:
            return "unknown_key"
        if claimed.get("alg") != "EdDSA" or "crit" in claimed:
            return "forged"
        public_key = Ed25519PublicKey.from_public_bytes(_bytes_of(key["x"]))
        public_key.verify(_bytes_of(signature), f"{header}.{payload}".encode())
        return _object_in(payload)
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return "forged"


def key_id_of(jws: str) -> Any:
    """The id of the key that a JWS claims to be signed with."""
    try:
        return _object_in(jws.split(".")[0]).get("kid")
    except ValueError:
        return None


def unverified(jws: str) -> Mapping[str, Any]:
    """The claims of a token, not verified; empty if it has none."""
    try:
        _header, payload, _signature = jws.split(".")
        return _object_in(payload)
    except ValueError:
        return {}


def _object_in(part: str) -> Mapping[str, Any]:
    value = parse_json(decode(_bytes_of(part)))
    if not isinstance(value, dict):
        raise ValueError("the part is no object")
    return value


def _bytes_of(text: str) -> bytes:
    if not _BASE64URL.fullmatch(text):
        raise ValueError("the text is not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
