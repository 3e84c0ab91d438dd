"""The verified knowledge of an installation: a value, which never changes.

Three functions make a new one: ``merge`` joins two processes' knowledge, ``apply`` adds an answer of the service, ``observed``
reads the clock. Times are in milliseconds since 1970 UTC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable, TypeVar, Union

from .shape import write_json
from .time import Ms, SeenTime, admit, correct, first_observation, is_ahead, merge_times, not_before, observe
from .trust import Keys, RevocationList, TokenClaims


@dataclass(frozen=True)
class Token:
    """The token held."""

    jws: str
    claims: TokenClaims
    file_keys: Keys | None
    """The key set of the offline file that it came in; None for a token of the service."""
    floating: bool
    """The activation held a lease of a floating licence when the token was issued."""
    former_fingerprint: str | None
    """The fingerprint that it was issued to, if this machine has another one since; else None."""


@dataclass(frozen=True)
class Licence:
    """The part that is replaced as a whole, by the process that changed it last."""

    revision: int = 0
    """How often a process has replaced this part: the higher number is newer. 0: an empty store."""
    key: str | None = None
    legacy_key: str | None = None
    """The legacy key that was exchanged for ``key``."""
    token: Token | None = None
    """The latest token, even if it has ended."""
    refusal: str | None = None
    """The reason with which the service last refused a token."""
    nonce: str | None = None
    """The nonce with which an offline file may set the time back; None if no file may."""


@dataclass(frozen=True)
class HeldList(RevocationList):
    """The revocation list that was last accepted.

    After ``expires_at`` it is outdated, even if an unsigned answer confirms it.
    """

    etag: str | None
    etag_since: Ms | None
    """The ``since`` of the request that the ETag answers."""
    checked_at: Ms | None
    """When the service last said that this is the latest list; None before it was read to its end."""


@dataclass(frozen=True)
class Revocations:
    """The known revocations of a licence."""

    list: HeldList | None = None
    named_by: str | None = None
    """An authentic list that names the licence: it is revoked, and no later answer changes that."""


@dataclass(frozen=True)
class Held:
    licence: Licence
    time: SeenTime
    keys: Keys | None = None
    """The keys that verify texts of the service."""
    revocations: Mapping[str, Revocations] = field(default_factory=dict)
    """The known revocations, by licence id. The store keeps the entry of its token's licence."""


def empty_held(key: str | None, local: Ms) -> Held:
    """The knowledge of a client that was given a licence key, or none."""
    return Held(Licence(key=key), first_observation(local))


def token_of(held: Held) -> Token | None:
    """The token of this machine; None if there is none."""
    token = held.licence.token
    return token if token and token.former_fingerprint is None else None


def revocations_of(held: Held) -> Revocations:
    """The known revocations of the token's licence."""
    token = token_of(held)
    return (token and held.revocations.get(token.claims.licence_id)) or Revocations()


def observed(held: Held, local: Ms) -> Held:
    """Reads the local clock."""
    return replace(held, time=observe(held.time, local))


# Merging


def merge(mine: Held, theirs: Held) -> Held:
    """Joins the knowledge of two processes that share a store.

    Commutative, associative and idempotent, so that neither the order of saves nor their number matters. Both times must have
    been continued to the same local clock.
    """
    return Held(
        licence=_merge_licences(mine.licence, theirs.licence),
        time=merge_times(mine.time, theirs.time),
        keys=merge_keys(mine.keys, theirs.keys),
        revocations=_merge_revocations(mine.revocations, theirs.revocations),
    )


def _merge_licences(mine: Licence, theirs: Licence) -> Licence:
    order = _compare(_rank_of(mine), _rank_of(theirs))
    if order != 0:
        return mine if order > 0 else theirs
    return replace(
        mine,
        key=_later(mine.key, theirs.key),
        legacy_key=_later(mine.legacy_key, theirs.legacy_key),
        refusal=_later(mine.refusal, theirs.refusal),
        nonce=_later(mine.nonce, theirs.nonce),
    )


Rank = tuple[Any, ...]


def _rank_of(licence: Licence) -> Rank:
    """The higher rank is newer. If two processes replaced the licence at once, an activation that was freed stays freed."""
    token = licence.token
    if token is None:
        return (licence.revision, 0 if licence.revision == 0 else 2)
    file_keys = token.file_keys.jws if token.file_keys else None
    text = write_json([token.jws, file_keys, token.floating, token.former_fingerprint])
    return (licence.revision, 1, token.claims.issued_at, token.claims.expires_at, text)


def merge_keys(mine: Keys | None, theirs: Keys | None) -> Keys | None:
    """The later set. If both are of one second, the set with more keys, because a rotation adds a key."""
    return _later(mine, theirs, lambda keys: (keys.issued_at, len(keys.keys), write_json([keys.jws, keys.keys])))


def _merge_revocations(mine: Mapping[str, Revocations], theirs: Mapping[str, Revocations]) -> Mapping[str, Revocations]:
    merged = dict(mine)
    for licence_id, other in theirs.items():
        held = mine.get(licence_id, Revocations())
        merged[licence_id] = Revocations(_merge_lists(held.list, other.list), _later(held.named_by, other.named_by))
    return merged


def _merge_lists(mine: HeldList | None, theirs: HeldList | None) -> HeldList | None:
    if mine and theirs and mine.jws != theirs.jws:
        return _later(mine, theirs, lambda each: (each.version, each.issued_at, each.jws))
    return _later(mine, theirs, _confirmation_of)


def _confirmation_of(held: HeldList) -> Rank:
    checked_at = -math.inf if held.checked_at is None else held.checked_at
    return (checked_at, -1 if held.etag_since is None else held.etag_since, held.etag or "")


_T = TypeVar("_T")


def _later(mine: _T | None, theirs: _T | None, rank: Callable[[_T], Rank] = lambda value: (value,)) -> _T | None:
    """The value with the higher rank. None is the lowest, and a text is its own rank."""
    if mine is None or theirs is None:
        return theirs if mine is None else mine
    return mine if _compare(rank(mine), rank(theirs)) >= 0 else theirs


def _compare(one: Rank, other: Rank) -> int:
    """Compares two ranks entry by entry: positive if ``one`` is higher."""
    return (one > other) - (one < other)


def absorb(mine: Held, stored: Held) -> Held:
    """Adds what the store has. The clock has been read before."""
    return _settle(merge(mine, replace(stored, time=admit(stored.time, mine.time))))


def _settle(held: Held) -> Held:
    """Makes the parts of a value that was read or changed agree.

    The time is not before what the service has signed, and nothing was confirmed in the future. A former time may have been ahead.
    """
    token, known = token_of(held), revocations_of(held).list
    signed = [each.issued_at for each in (token.claims if token else None, known) if each]
    time = not_before(held.time, max(signed, default=-math.inf))
    keys = held.keys
    if keys and keys.jws is None:
        keys = replace(keys, issued_at=min(keys.issued_at, time.time))
    settled = replace(held, keys=keys, time=time)
    if known is None or known.checked_at is None:
        return settled
    return _with_revocations(settled, list=replace(known, checked_at=min(known.checked_at, time.time)))


# Answers


@dataclass(frozen=True)
class TokenAnswer:
    token: Token
    nonce: str | None
    """The nonce of the request; None if there was none."""
    licence_key: str | None = None
    """The key of a new trial."""


@dataclass(frozen=True)
class Refusal:
    reason: str | None
    """None ends the last refusal."""


@dataclass(frozen=True)
class Freed:
    """The service freed the activation, or ended its lease."""


@dataclass(frozen=True)
class Exchange:
    """A legacy key was exchanged."""

    legacy_key: str
    licence_key: str


@dataclass(frozen=True)
class ListAnswer:
    list: RevocationList
    etag: str | None
    since: int | None
    """The ``since`` of the request."""


@dataclass(frozen=True)
class ListUnchanged:
    """The list held is the latest."""


#: An answer of the service, or an offline file, that was verified.
Verified = Union[TokenAnswer, Refusal, Freed, Exchange, Keys, ListAnswer, ListUnchanged]


def apply(held: Held, answer: Verified) -> Held:
    """Adds an answer. The clock has been read before."""
    licence = held.licence
    if isinstance(answer, TokenAnswer):
        time = _time_after(held, answer.token, answer.nonce)
        key = licence.key if answer.licence_key is None else answer.licence_key
        changed = _replaced(held, key=key, token=answer.token, refusal=None, nonce=None)
        return _settle(replace(changed, time=time))
    if isinstance(answer, Refusal):
        return replace(held, licence=replace(licence, refusal=answer.reason))
    if isinstance(answer, Freed):
        return _replaced(held, token=None, refusal=None)
    if isinstance(answer, Exchange):
        return _replaced(held, legacy_key=answer.legacy_key, key=answer.licence_key, refusal=None)
    if isinstance(answer, Keys):
        return replace(held, keys=answer)
    if isinstance(answer, ListAnswer):
        return _apply_list(held, answer)
    known = revocations_of(held).list
    return _with_revocations(held, list=replace(known, checked_at=held.time.time)) if known else held


def _replaced(held: Held, **change: Any) -> Held:
    return replace(held, licence=replace(held.licence, **change, revision=held.licence.revision + 1))


def _time_after(held: Held, token: Token, nonce: str | None) -> SeenTime:
    """The time after a token.

    A token that answers this request sets the time, even if the clock is ahead, so that a clock with a constant error does no
    harm. A file does that only with the nonce of the store, and sets it to the local clock, because the file may be old. Any
    other token only shows that it is not earlier.
    """
    issued_at = token.claims.issued_at
    if nonce is None or token.claims.nonce != nonce:
        return not_before(held.time, issued_at)
    former, known = token_of(held), revocations_of(held).list
    return correct(
        held.time,
        max(
            held.time.local if token.file_keys else issued_at,
            issued_at,
            former.claims.issued_at if former else 0,
            known.issued_at if known else 0,
        ),
    )


def _apply_list(held: Held, answer: ListAnswer) -> Held:
    given, current, token = answer.list, revocations_of(held).list, token_of(held)
    if token and token.claims.licence_id in given.revoked:
        held = _with_revocations(held, named_by=given.jws)
    if acceptance_of(given, held) != "accepted":
        return held
    time = not_before(held.time, given.issued_at)
    checked_at = (current.checked_at if current else None) if given.more else time.time
    accepted = HeldList(**vars(given), etag=answer.etag, etag_since=answer.since, checked_at=checked_at)
    return replace(_with_revocations(held, list=accepted), time=time)


# Largest accepted difference between the service's clock and the trusted time.
_TOLERANCE_MS = 300_000


def acceptance_of(given: RevocationList, held: Held) -> str:
    """Whether an authentic list may replace the current one: ``accepted``, or the code of the problem.

    A licence that it names is revoked in any case: a revocation is permanent, so an old list proves it as well as a new one.
    """
    known = revocations_of(held).list
    current = known.version if known else None
    if given.expires_at + _TOLERANCE_MS <= max(held.time.time, given.issued_at):
        return "list_expired"
    if current is not None and given.version < current:
        return "list_outdated"
    if given.since is not None and (current is None or given.since > current):
        return "list_gap"
    return "accepted"


def _with_revocations(held: Held, **change: Any) -> Held:
    token = token_of(held)
    if token is None:
        return held
    changed = replace(revocations_of(held), **change)
    return replace(held, revocations={**held.revocations, token.claims.licence_id: changed})


def with_file_nonce(held: Held, new_nonce: Callable[[], str]) -> Held:
    """Adds a nonce if the next offline file may set the time back.

    Nothing is granted, and the trusted time is ahead of the local clock. So an older file never sets the time back.
    """
    token = token_of(held)
    has_ended = token is None or held.time.time >= token.claims.expires_at
    if held.licence.nonce is not None or not is_ahead(held.time) or not has_ended:
        return held
    return replace(held, licence=replace(held.licence, nonce=new_nonce()))
