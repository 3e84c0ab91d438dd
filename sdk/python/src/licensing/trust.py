"""From bytes to verified claims: root keys, key sets, tokens, revocation lists and offline files.

Everything that the service signs, wherever it came from, is read here. Times are in milliseconds since 1970 UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from .shape import is_count, is_number, is_strings, is_unix_time, text_or_none
from .signature import PublicKey, key_id_of, unverified, verify
from .time import Ms, read_timestamp

if TYPE_CHECKING:
    from .held import Held

#: The root keys that must have signed other keys, or ``unpinned`` to trust all keys.
Trust = Union[Sequence[PublicKey], str]


@dataclass(frozen=True)
class Identity:
    """The installation that a text must have been signed for."""

    app_id: str
    fingerprint: str
    licence_key: str | None
    """The key that the product was given; None to use the stored one."""
    trust: Trust


# Root keys

# 32 bytes in base64url: the last two bits of the last character are unused, and must be 0.
_ROOT_KEY = re.compile("lrk_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])")


def read_trust(given: object) -> Trust:
    """Reads the option ``root_key``.

    Raises:
        ValueError: if it is missing or malformed, so that no product trusts any key by mistake
    """
    if given == "unpinned":
        return "unpinned"
    texts = list(given) if isinstance(given, (list, tuple)) else [given]
    found = [_ROOT_KEY.fullmatch(text) if isinstance(text, str) else None for text in texts]
    if not found or None in found:
        raise ValueError(
            "root_key must be the application's root_key (GET /v1/apps/{app_id}), or several; 'unpinned' does without, "
            "and lets anyone who can edit the store license the product"
        )
    # The `kid` of a root key is the text itself.
    return [{"kid": each[0], "x": each[1]} for each in found if each]


# Key sets


@dataclass(frozen=True)
class Keys:
    """The public keys of the application."""

    jws: str | None
    """The signed set, an entry of ``signed``; None if the client is unpinned, which believes the keys as they come."""
    keys: Sequence[PublicKey]
    issued_at: Ms
    """When a root key signed the set; for an unpinned client when it was received."""
    expires_at: Ms
    """Infinity for an unpinned client."""


# The service signs key sets for 30 days. A set that lasts longer belongs to an offline file, and is accepted only there.
_MAX_LIFE_MS = 31 * 86_400_000


def is_key_set(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("keys"), list):
        return False
    return all(isinstance(key, dict) for key in value["keys"])


def read_keys(body: Any, identity: Identity, current: Keys | None, time: Ms) -> Keys | str:
    """Reads an answer of ``jwks.json`` at ``time``: the first set that may replace the current one, else why there is none."""
    if not is_key_set(body):
        return "unexpected_answer"
    if isinstance(identity.trust, str):
        return unsigned_keys(body["keys"], time)
    refusal = "untrusted_keys"
    signed = body.get("signed")
    for jws in signed if isinstance(signed, list) else []:
        keys = _read_signed_keys(jws, identity)
        if keys is None or not _is_from_service(keys):
            continue
        if keys.expires_at <= time:
            refusal = "keys_expired"
        elif current and keys.issued_at < current.issued_at:
            refusal = "keys_outdated"
        else:
            return keys
    return refusal


def read_stored_keys(stored: Mapping[str, Any], identity: Identity) -> Keys | None:
    """The keys in the store, verified like those of the service, but for their age; None if there are none."""
    if isinstance(identity.trust, str):
        received_at = read_timestamp(stored["jwks_at"]) or 0
        return stored["jwks"] and unsigned_keys(stored["jwks"]["keys"], received_at)
    keys = _read_signed_keys(stored["signed_keys"], identity)
    return keys if keys and _is_from_service(keys) else None


def unsigned_keys(keys: Sequence[PublicKey], received_at: Ms) -> Keys:
    return Keys(jws=None, keys=keys, issued_at=received_at, expires_at=math.inf)


def _read_signed_keys(jws: object, identity: Identity) -> Keys | None:
    """The key set of a text; None if it is not signed by a root key for this application."""
    if not isinstance(jws, str) or isinstance(identity.trust, str):
        return None
    payload = verify(jws, identity.trust)
    if isinstance(payload, str) or payload.get("app_id") != identity.app_id or not is_key_set(payload):
        return None
    issued_at, expires_at = payload.get("iat"), payload.get("exp")
    if not is_unix_time(issued_at) or not is_unix_time(expires_at):
        return None
    return Keys(jws, payload["keys"], payload["iat"] * 1000, payload["exp"] * 1000)


def _is_from_service(keys: Keys) -> bool:
    return keys.expires_at - keys.issued_at <= _MAX_LIFE_MS


def _is_withdrawn(jws: str, file_keys: Keys, current: Keys | None) -> bool:
    """Whether the key that signed a file was withdrawn: a later set of the service lacks it."""
    if current is None or current.issued_at <= file_keys.issued_at:
        return False
    kid = key_id_of(jws)
    return all(key.get("kid") != kid for key in current.keys)


# Tokens


@dataclass(frozen=True)
class TokenClaims:
    """The verified content of a token."""

    licence_id: str
    activation_id: str
    plan_id: str | None
    licence_status: str | None
    issued_at: Ms
    expires_at: Ms
    refresh_after: Ms
    """Half of the life; of an offline token the end, as only another file renews it."""
    check_interval_ms: Ms
    seats: Ms | None
    updates_until: Ms | None
    """The product may be updated to releases until this time; None: to all."""
    entitlements: Mapping[str, str]
    offline: bool
    """Whether the token came in a file, for a machine without a network."""
    fingerprint: str | None
    """The fingerprint that it is valid for; None if only the service knows it."""
    nonce: str | None
    """The nonce of the request that it answers; None if the request had none."""


_MAX_CHECK_INTERVAL_S = 86_400


def read_stored_token(
    stored: Mapping[str, Any], keys: Keys | None, identity: Identity, time: Ms
) -> tuple[TokenClaims, Keys | None] | None:
    """Reads the token of the store, with the keys of the service or of the file that it came in."""
    jws, signed = stored["token"], stored["file_keys"]
    file_keys = _read_signed_keys(signed, identity)
    if signed is not None and (file_keys is None or _is_withdrawn(jws, file_keys, keys)):
        return None
    claims = read_token(jws, file_keys or keys, identity.app_id, stored["fingerprint"], time)
    if isinstance(claims, str) or (file_keys and not claims.offline):
        return None
    return claims, file_keys


def read_token(jws: str, keys: Keys | None, app_id: str, fingerprint: str, time: Ms) -> TokenClaims | str:
    """Reads a token of an application for a fingerprint, at ``time``."""
    payload = verify(jws, keys.keys if keys else [])
    if isinstance(payload, str):
        return payload
    claims = _claims_in(payload, app_id)
    if claims is None or claims.fingerprint not in (None, fingerprint):
        return "forged"
    # Keys that have ended verify only tokens that have ended, so that these can be shown and renewed.
    is_in_time = keys is None or keys.expires_at > time or claims.expires_at <= time
    return claims if is_in_time else "unknown_key"


def _claims_in(payload: Mapping[str, Any], app_id: str) -> TokenClaims | None:
    """The claims in an authentic payload; None if it is not a token of this application."""
    get = payload.get
    iat, exp, chk, audience, entitlements = get("iat"), get("exp"), get("chk"), get("aud"), get("entitlements")
    if not isinstance(get("sub"), str) or not isinstance(get("act"), str):
        return None
    if audience != app_id and not (isinstance(audience, list) and app_id in audience):
        return None
    if iat is None or exp is None or chk is None or not all(map(is_unix_time, (iat, exp, chk))) or chk <= 0:
        return None
    if not isinstance(entitlements, dict) or not is_strings(list(entitlements.values())):
        return None
    issued_at, expires_at, offline = iat * 1000, exp * 1000, get("offline") is True
    return TokenClaims(
        licence_id=payload["sub"],
        activation_id=payload["act"],
        plan_id=text_or_none(get("plan_id")),
        licence_status=text_or_none(get("status")),
        issued_at=issued_at,
        expires_at=expires_at,
        refresh_after=expires_at if offline else issued_at + (expires_at - issued_at) / 2,
        check_interval_ms=min(chk, _MAX_CHECK_INTERVAL_S) * 1000,
        seats=get("seats") if is_number(get("seats")) else None,
        updates_until=payload["upd"] * 1000 if is_unix_time(get("upd")) else None,
        entitlements=entitlements,
        offline=offline,
        fingerprint=text_or_none(get("fingerprint")),
        nonce=text_or_none(get("nonce")),
    )


_INTEGER = re.compile("(0|-?[1-9][0-9]{0,14})")


def feature_of(claims: TokenClaims, key: str) -> bool:
    return claims.entitlements.get(key) == "true"


def limit_of(claims: TokenClaims, key: str) -> int:
    value = claims.entitlements.get(key, "")
    return int(value) if _INTEGER.fullmatch(value) else 0


# Revocation lists


@dataclass(frozen=True)
class RevocationList:
    """The content of a signed revocation list."""

    jws: str
    version: int
    since: int | None
    """The version after which it lists additions; None for the whole list."""
    revoked: Sequence[str]
    more: bool
    """The list goes on after ``version``: the rest is requested with it."""
    issued_at: Ms
    expires_at: Ms


def read_list(jws: str, keys: Keys | None, app_id: str) -> RevocationList | str:
    payload = verify(jws, keys.keys if keys else [])
    if isinstance(payload, str):
        return payload
    get = payload.get
    since, more = get("since"), get("more", False)
    if get("app_id") != app_id or not is_count(get("version")) or not is_strings(get("revoked")):
        return "forged"
    if not is_unix_time(get("iat")) or not is_unix_time(get("exp")) or not isinstance(more, bool):
        return "forged"
    if since is not None and not is_count(since):
        return "forged"
    # A list since version 0 is complete.
    iat, exp = payload["iat"] * 1000, payload["exp"] * 1000
    return RevocationList(jws, payload["version"], since or None, payload["revoked"], more, iat, exp)


# Offline files


@dataclass(frozen=True)
class FileContent:
    """The token of an offline file, with the keys of the file."""

    jws: str
    claims: TokenClaims
    file_keys: Keys


def time_for(held: Held, jws: str, nonce: str | None) -> Ms:
    """The time at which an answer to a request with ``nonce`` is checked.

    A token with this nonce was issued after the request: if the trusted time is ahead of the clock, the clock counts. Nothing is
    verified here.
    """
    claims = unverified(jws)
    issued_at = claims.get("iat")
    if nonce is None or claims.get("nonce") != nonce or issued_at is None or not is_unix_time(issued_at):
        return held.time.time
    issued_at_ms: Ms = issued_at * 1000
    return max(held.time.local, issued_at_ms)


def read_file(text: object, identity: Identity, held: Held, current: TokenClaims | None) -> FileContent | str:
    """The token of an offline file, if it is for this installation; else why it is refused."""
    if isinstance(identity.trust, str):
        return "root_key_required"
    jws, *signed = _texts_in_file(text) or [""]
    if not signed:
        return "file_malformed"
    claimed = unverified(jws)
    # This check only gives a better reason: a file of another application would not verify either.
    if isinstance(claimed.get("aud"), str) and claimed["aud"] != identity.app_id:
        return "file_of_another_application"
    keys = next(filter(None, (_read_signed_keys(each, identity) for each in signed)), None)
    if keys is None:
        return "untrusted_keys"
    if _is_withdrawn(jws, keys, held.keys):
        return "keys_outdated"
    # The token must be authentic before its fingerprint and its end are compared, for a reason that is true.
    machine = text_or_none(claimed.get("fingerprint")) or identity.fingerprint
    claims = read_token(jws, keys, identity.app_id, machine, -math.inf)
    if isinstance(claims, str):
        return "untrusted_signature"
    if not claims.offline:
        return "file_malformed"
    if claims.fingerprint != identity.fingerprint:
        return "file_of_another_machine"
    time = time_for(held, jws, held.licence.nonce)
    if min(claims.expires_at, keys.expires_at) <= time:
        return "file_expired"
    is_valid = current is not None and current.offline and current.expires_at > time
    if current and is_valid and current.activation_id == claims.activation_id and current.issued_at > claims.issued_at:
        return "file_outdated"
    return FileContent(jws, claims, keys)


# Word processors and mail programs replace hyphens by other dashes.
_DASHES = re.compile("[\u2010-\u2015\u2212]")
# White space, marks of quoted and wrapped lines, and what else stands between the characters of a file.
_NOISE = re.compile("[^A-Za-z0-9_.-]+")
_LINES = re.compile("-(?:BEGIN|END)LICENCE", re.IGNORECASE)
# A compact JWS with a signature of 64 bytes (Ed25519), so that its end is known without the end of a line.
_JWS = re.compile("[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]{86}")


def _texts_in_file(text: object) -> list[str]:
    """The signed texts of an offline licence file, the first one in the text: the token and the key sets.

    Each step takes a time that grows with the length of the text only, whatever somebody pasted.
    """
    parts = _LINES.split(_NOISE.sub("", _DASHES.sub("-", text)), 2) if isinstance(text, str) else []
    content = parts[1].lstrip("-") if len(parts) == 3 else ""
    texts, at, end = [], 0, len(content.rstrip("-"))
    while at < end:
        found = _JWS.match(content, at)
        if not found:
            return []
        texts.append(found[0])
        at = found.end()
    return texts
