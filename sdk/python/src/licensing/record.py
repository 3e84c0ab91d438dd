"""The text of the store: JSON. It is not trusted, and everything in it is verified again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from .held import Held, HeldList, Licence, Revocations, Token, empty_held, merge_keys, revocations_of, token_of
from .shape import is_count, is_number, parse_json, write_json
from .time import Ms, SeenTime, admit, merge_times, read_timestamp, timestamp
from .trust import Identity, Keys, RevocationList, is_key_set, read_list, read_stored_keys, read_stored_token

_Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return read_timestamp(value) is not None


def _none_or(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _object_with(fields: Mapping[str, _Check]) -> _Check:
    return lambda value: isinstance(value, dict) and all(check(value.get(name)) for name, check in fields.items())


_SEEN: Mapping[str, _Check] = {"time": _is_time, "local": _is_time, "turned_back": _is_bool, "corrections": is_count}

_REVOCATIONS: Mapping[str, _Check] = {
    "list": _none_or(_is_text),
    "named_by": _none_or(_is_text),
    "etag": _none_or(_is_text),
    "etag_since": _none_or(is_number),
    "checked_at": _is_time,
}

# Which value each field may have. A record with another one is ignored as a whole.
_RECORD: Mapping[str, _Check] = {
    "format": lambda value: is_count(value) and value == 1,
    "app_id": _is_text,
    "licence_key": _none_or(_is_text),
    "legacy_key": _none_or(_is_text),
    "fingerprint": _is_text,
    "token": _none_or(_is_text),
    "floating": _is_bool,
    "refusal": _none_or(_is_text),
    "signed_keys": _none_or(_is_text),
    "jwks": _none_or(is_key_set),
    "jwks_at": _is_time,
    "file_keys": _none_or(_is_text),
    "revocations": _none_or(_object_with(_REVOCATIONS)),
    "seen": _object_with(_SEEN),
    "revision": is_count,
    "nonce": _none_or(_is_text),
}

# The fields that may be absent. A field that must be there has a value that no check accepts.
_ABSENT = object()
_RECORD_DEFAULTS = {
    **dict.fromkeys(_RECORD, _ABSENT),
    "floating": False,
    "signed_keys": None,
    "jwks_at": timestamp(0),
    "file_keys": None,
    "revision": 0,
    "nonce": None,
}
_SEEN_DEFAULTS = {"turned_back": False, "corrections": 0}
_REVOCATIONS_DEFAULTS = dict.fromkeys(_REVOCATIONS, _ABSENT)


def _parse(text: str) -> dict[str, Any] | None:
    try:
        value = parse_json(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    record = {**_RECORD_DEFAULTS, **value}
    for name, defaults in (("seen", _SEEN_DEFAULTS), ("revocations", _REVOCATIONS_DEFAULTS)):
        if isinstance(record[name], dict):
            record[name] = {**defaults, **record[name]}
    return record if all(check(record[name]) for name, check in _RECORD.items()) else None


@dataclass(frozen=True)
class Found:
    """The content of the store, as read for this installation."""

    held: Held
    """The verified content, as far as it is for this installation."""
    absence: str | None = None
    """Why the store has no token for this installation; None if it has, or if it never had one."""
    foreign_revision: int | None = None
    """The revision of a record of another licence key or machine, which must not be overwritten by an older one."""


def read_record(text: str | None, mine: Held, identity: Identity) -> Found:
    """Reads and verifies the text of the store. ``mine`` is the knowledge so far, after the clock was read."""
    nothing = empty_held(identity.licence_key, mine.time.local)
    record = None if text is None else _parse(text)
    if record is None:
        return Found(nothing, absence=None if text is None else "store_corrupt")
    if record["app_id"] != identity.app_id:
        return Found(nothing)
    time = _read_time(record["seen"])
    now = merge_times(mine.time, admit(time, mine.time)).time
    stored_keys = read_stored_keys(record, identity)
    keys = merge_keys(mine.keys, stored_keys)
    licence, absence, foreign_revision = _read_licence(record, mine, identity, keys, now)
    stored = record["revocations"] or {}
    texts = (stored.get("named_by"), stored.get("list"))
    # Their keys may have ended, because a licence that a list names stays revoked.
    lists = [read_list(jws, keys, identity.app_id) for jws in texts if jws is not None]
    authentic = [each for each in lists if isinstance(each, RevocationList)]
    held = Held(licence, time, stored_keys, _revocations_in(stored, authentic, licence.token, mine))
    return Found(held, absence, foreign_revision)


def _read_licence(
    record: Mapping[str, Any], mine: Held, identity: Identity, keys: Keys | None, now: Ms
) -> tuple[Licence, str | None, int | None]:
    """The licence of a record, with the absence and the foreign revision.

    That of another key or machine is not ours, unless this machine has none yet.
    """
    given, stored, revision = identity.licence_key, record["licence_key"], record["revision"]
    none = Licence(key=given)
    if given is not None and stored is not None and not _is_same_key(given, stored):
        return none, "licence_key_changed", revision

    def licence(token: Token | None, refusal: str | None = None) -> Licence:
        key = stored if given is None else given
        return Licence(revision, key, record["legacy_key"], token, refusal, record["nonce"])

    if record["token"] is None:
        return licence(None), None, None
    has_token = token_of(mine) is not None
    read = read_stored_token(record, keys, identity, now)
    if read is None:
        return none if has_token else licence(None), "store_corrupt", None
    claims, file_keys = read
    is_ours = record["fingerprint"] == identity.fingerprint
    former = None if is_ours else record["fingerprint"]
    token = Token(record["token"], claims, file_keys, record["floating"], former)
    if is_ours:
        return licence(token, record["refusal"]), None, None
    if has_token:
        return none, None, revision
    return licence(token), "fingerprint_changed", None


def _is_same_key(one: str, other: str) -> bool:
    """Only letters and digits of a licence key count, and letters that Crockford's base 32 lacks are the digits that they resemble."""
    return _characters_of(one) == _characters_of(other)


def _characters_of(key: str) -> str:
    return re.sub("[^0-9A-Z]", "", key.upper()).translate(str.maketrans("OIL", "011"))


def _revocations_in(
    stored: Mapping[str, Any], lists: list[RevocationList], token: Token | None, mine: Held
) -> dict[str, Revocations]:
    """The revocations of the licences of the record and of the client.

    A list that names a licence counts for that, whatever else the record says; the list held is for the record's licence.
    """
    current = next((each for each in lists if each.jws == stored["list"]), None)
    known = None
    if current:
        checked_at = read_timestamp(stored["checked_at"])
        known = HeldList(**vars(current), etag=stored["etag"], etag_since=stored["etag_since"], checked_at=checked_at)
    found = {}
    for licence_id in [each.claims.licence_id for each in (token, token_of(mine)) if each]:
        named_by = next((each.jws for each in lists if licence_id in each.revoked), None)
        is_of_record = token is not None and licence_id == token.claims.licence_id
        found[licence_id] = Revocations(known if is_of_record else None, named_by)
    return found


def _read_time(stored: Mapping[str, Any]) -> SeenTime:
    time, local = (read_timestamp(stored[name]) for name in ("time", "local"))
    return SeenTime(time or 0, local or 0, stored["turned_back"], stored["corrections"])


def write_record(held: Held, identity: Identity) -> str:
    """The text that the store keeps."""
    licence, keys, time, token = held.licence, held.keys, held.time, held.licence.token
    is_unpinned = keys is not None and keys.jws is None
    record = {
        "format": 1,
        "app_id": identity.app_id,
        "licence_key": licence.key,
        "legacy_key": licence.legacy_key,
        "fingerprint": (token and token.former_fingerprint) or identity.fingerprint,
        "token": token and token.jws,
        "floating": token is not None and token.floating,
        "refusal": licence.refusal if token_of(held) else None,
        "signed_keys": keys and keys.jws,
        "jwks": {"keys": keys.keys} if keys and is_unpinned else None,
        "jwks_at": timestamp(keys.issued_at if keys and is_unpinned else 0),
        "file_keys": token and token.file_keys and token.file_keys.jws,
        "revocations": _write_revocations(held),
        "seen": {
            "time": timestamp(time.time),
            "local": timestamp(time.local),
            "turned_back": time.turned_back,
            "corrections": time.corrections,
        },
        "revision": licence.revision,
        "nonce": licence.nonce,
    }
    return write_json(record)


def _write_revocations(held: Held) -> dict[str, Any] | None:
    known = revocations_of(held)
    if known.list is None and known.named_by is None:
        return None
    checked_at = known.list.checked_at if known.list else None
    return {
        "list": known.list and known.list.jws,
        "named_by": known.named_by,
        "etag": known.list and known.list.etag,
        "etag_since": known.list and known.list.etag_since,
        "checked_at": timestamp(held.time.time if checked_at is None else checked_at),
    }
