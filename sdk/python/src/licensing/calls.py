"""The calls of a product: which requests each one sends, and what follows from each answer.

They read the two values of the session, and change them only by ``apply`` and ``record``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Callable, Protocol, TypeVar, Union
from urllib.parse import quote

from .attempts import NO_BACKOFF, Attempts, Trouble, after_failure, is_blocked, with_new_token, with_problem
from .held import (
    Exchange,
    Freed,
    Held,
    ListAnswer,
    ListUnchanged,
    Refusal,
    Token,
    TokenAnswer,
    Verified,
    acceptance_of,
    revocations_of,
    token_of,
)
from .licence_key import trim_unseen
from .reasons import FILE_REFUSALS
from .service import Answer, Ask, Call, Failure, Refused, Signal, Success, unexpected
from .shape import is_unix_time, text_or_none
from .signature import unverified
from .state import grants, status_of
from .time import Ms
from .trust import Identity, RevocationList, read_file, read_keys, read_list, read_token


@dataclass(frozen=True)
class Product:
    """The description of the installation in requests."""

    host: str
    product_version: str


class Calling(Protocol):
    """The session, as the calls see it."""

    identity: Identity
    product: Product
    ask: Ask
    new_nonce: Callable[[], str]

    @property
    def held(self) -> Held: ...

    @property
    def attempts(self) -> Attempts: ...

    def time(self) -> Ms:
        """Reads the clock, and returns the trusted time in milliseconds."""

    def apply(self, answer: Verified) -> None: ...

    def record(self, attempts: Attempts) -> None: ...


REFUSALS: Mapping[str, Mapping[str, str]] = {
    "activate": {
        "404 not_found": "unknown_licence_key",
        "409 limit_reached": "limit_reached",
        "409 quota_exceeded": "quota_exceeded",
        "422 validation_failed": "invalid_request",
    },
    "refresh": {
        # The activation is known, so only a lease can be missing.
        "409 limit_reached": "no_place",
        "401 unauthenticated": "token_rejected",
        "404 not_found": "activation_freed",
        "422 validation_failed": "invalid_request",
    },
    "migrate": {
        "404 not_found": "unknown_legacy_key",
        "422 validation_failed": "invalid_request",
    },
    "start_trial": {
        "404 not_found": "unknown_plan",
        "409 plan_archived": "plan_archived",
        "409 limit_reached": "limit_reached",
        "409 quota_exceeded": "quota_exceeded",
        "422 validation_failed": "invalid_request",
    },
}
"""The reasons of refusals, by operation. Any other refusal is a failure."""


def _refusal_in(operation: str, answer: Answer | None) -> str | None:
    """The refusal in an answer; None if there is none."""
    if not isinstance(answer, Refused):
        return None
    if answer.code == "licence_refused":
        return answer.code if answer.reason is None else answer.reason
    if answer.code == "limit_reached" and answer.reason == "max_concurrent":
        return "no_place"
    return REFUSALS[operation].get(f"{answer.status} {answer.code}")


def activate(on: Calling, signal: Signal) -> None:
    """Activates the licence key, and receives a token."""
    if on.held.licence.key is None:
        return on.record(replace(on.attempts, absence="no_licence_key"))
    if _is_waiting(on, "token"):
        return None
    nonce = on.new_nonce()
    answer = _request_token(on, nonce, signal)
    refusal = _refusal_in("activate", answer)
    is_full = refusal in ("limit_reached", "no_place", "quota_exceeded")
    if is_full and _free_former_activation(on, signal):
        answer = _request_token(on, nonce, signal)
    problem = _receive_token(on, answer, nonce, signal)
    # If the vendor has given the licence another key, the activation and its expired token can still be renewed.
    token = token_of(on.held) if refusal == "unknown_licence_key" else None
    if token and _renew_token(on, token, signal) is None:
        problem = None
    return _record_token_outcome(on, "activate", problem)


def _request_token(on: Calling, nonce: str, signal: Signal) -> Answer:
    body = {"licence_key": on.held.licence.key, **_description_of(on), "nonce": nonce}
    return on.ask(Call("POST", "/v1/activations", body), signal)


def _description_of(on: Calling) -> dict[str, str]:
    return {
        "fingerprint": on.identity.fingerprint,
        "host": on.product.host,
        "product_version": on.product.product_version,
    }


def _free_former_activation(on: Calling, signal: Signal) -> bool:
    """Frees the activation that this machine has under its former fingerprint. False if there is none or it cannot be freed."""
    token = on.held.licence.token
    if token is None or token.former_fingerprint is None:
        return False
    return _is_gone(on.ask(Call("DELETE", _path_of(token), token=token.jws), signal))


def refresh(on: Calling, signal: Signal) -> None:
    """Requests a new token for the activation."""
    token = token_of(on.held)
    if token is None or _is_offline_now(on) or is_revoked(on) or _is_waiting(on, "token"):
        return
    problem = _renew_token(on, token, signal)
    needs_activation = _refusal_in("refresh", problem) in ("token_rejected", "activation_freed")
    # The activation was freed, or its token is too old. If there is a licence key, it is activated again.
    if needs_activation and on.held.licence.key is not None:
        activate(on, signal)
    else:
        _record_token_outcome(on, "refresh", problem)


def _renew_token(on: Calling, token: Token, signal: Signal) -> Answer | None:
    """Replaces the token by a new one of its activation; None if that worked."""
    nonce = on.new_nonce()
    body = {"product_version": on.product.product_version, "host": on.product.host, "nonce": nonce}
    answer = on.ask(Call("POST", f"{_path_of(token)}/refresh", body, token.jws), signal)
    return _receive_token(on, answer, nonce, signal)


def call_home(on: Calling, signal: Signal) -> None:
    """Tells the service that this installation is in use, whatever the licence's status."""
    token = token_of(on.held)
    if token is None or _is_waiting(on, "token"):
        return
    body = {"product_version": on.product.product_version, "host": on.product.host}
    answer = on.ask(Call("POST", f"{_path_of(token)}/call-home", body, token.jws), signal)
    _record_problem(on, "call_home", None if isinstance(answer, Success) else _trouble_of(answer))


def release(on: Calling, signal: Signal) -> None:
    """Ends the lease of a floating licence, and then the use of the token. The activation stays."""
    token = token_of(on.held)
    if token is None or _is_offline_now(on) or _is_waiting(on, "token"):
        return
    answer = on.ask(Call("POST", f"{_path_of(token)}/release", token=token.jws), signal)
    _record_freed(on, "release", "released" if _is_gone(answer) and token.floating else None, answer)


def deactivate(on: Calling, signal: Signal) -> None:
    """Frees the activation at the service, then deletes the token."""
    token = token_of(on.held)
    if token is None or _is_waiting(on, "token"):
        return
    answer = on.ask(Call("DELETE", _path_of(token), token=token.jws), signal)
    _record_freed(on, "deactivate", "deactivated" if _is_gone(answer) else None, answer)


def _record_freed(on: Calling, operation: str, absence: str | None, answer: Answer) -> None:
    if absence is not None:
        on.apply(Freed())
        on.record(with_new_token(on.attempts, absence))
    _record_outcome(on, operation, "token", None if _is_gone(answer) else _trouble_of(answer))


def _is_gone(answer: Answer) -> bool:
    """The service has freed what was to be freed, or does not know it any more."""
    return isinstance(answer, Success) or (isinstance(answer, Refused) and answer.status == 404)


def start_trial(on: Calling, plan_code: str, signal: Signal) -> None:
    """Starts a trial, or continues with the licence key of the trial that was started before."""
    if on.held.licence.key is not None:
        return activate(on, signal)
    if _is_waiting(on, "token"):
        return None
    nonce = on.new_nonce()
    body = {"plan_code": plan_code, **_description_of(on), "nonce": nonce}
    answer = on.ask(Call("POST", f"{_app_path(on)}/trials", body), signal)
    licence_key = _text_in(answer, "licence_key")
    return _record_token_outcome(on, "start_trial", _receive_token(on, answer, nonce, signal, licence_key))


def _text_in(answer: Answer, name: str) -> str | None:
    is_object = isinstance(answer, Success) and isinstance(answer.body, dict)
    return text_or_none(answer.body.get(name)) if isinstance(answer, Success) and is_object else None


def migrate(on: Calling, given: str, signal: Signal) -> None:
    """Exchanges a legacy key for a licence key, once, and activates with that."""
    legacy_key = trim_unseen(given)
    licence = on.held.licence
    is_exchanged = licence.legacy_key == legacy_key and licence.key is not None
    if not is_exchanged and not _exchange(on, legacy_key, signal):
        return
    on.time()
    if not is_exchanged or not is_usable(on):
        activate(on, signal)


def _exchange(on: Calling, legacy_key: str, signal: Signal) -> bool:
    if _is_waiting(on, "token"):
        return False
    answer = on.ask(Call("POST", f"{_app_path(on)}/migrate", {"legacy_key": legacy_key}), signal)
    licence_key = _text_in(answer, "key")
    if licence_key is not None:
        on.apply(Exchange(legacy_key, licence_key))
        _record_outcome(on, "migrate", "token", None)
        return True
    # A failed exchange does not change the licence held.
    if token_of(on.held):
        refusal = _refusal_in("migrate", answer)
        _record_outcome(on, "migrate", "token", Trouble(refusal, legacy_key) if refusal else _trouble_of(answer))
    else:
        _record_token_outcome(on, "migrate", answer)
    return False


def activate_offline(on: Calling, text: object) -> None:
    """Reads an offline licence file, without network. If the file is refused, the licence held stays."""
    on.time()
    keys, licence, token = on.held.keys, on.held.licence, token_of(on.held)
    current = token.claims if token else None
    content = read_file(text, on.identity, keys, current, lambda jws: _time_for(on, jws, licence.nonce))
    if isinstance(content, str):
        if token is None and licence.refusal is not None:
            on.apply(Refusal(None))
        if token is None:
            on.record(replace(on.attempts, absence=content, failure=None))
        return _record_problem(on, "activate_offline", Trouble(content, FILE_REFUSALS[content]))
    _accept(on, Token(content.jws, content.claims, content.file_keys, False, None), licence.nonce)
    return _record_problem(on, "activate_offline", None)


# A check reads at most this many answers, about a million licences. The next check goes on from there.
_MAX_ANSWERS = 64

_START_OVER = "start_over"
#: The version from which the list goes on, or how reading it has ended.
_ListOutcome = Union[int, str, Trouble, None]


def check(on: Calling, signal: Signal) -> None:
    """Reads the revocation list to its end: the additions since the current version, or the whole list.

    What was received counts and is kept, also if a later answer fails. After a failure the current list stays, at most until the
    token ends.
    """
    token = token_of(on.held)
    if token is None or is_revoked(on) or _is_waiting(on, "list"):
        return
    known = revocations_of(on.held).list
    outcome = _read_list_from(on, known.version if known else None, signal)
    # The service does not know the current version, or its list does not continue it: read the whole list.
    if outcome == _START_OVER:
        outcome = _read_list_from(on, None, signal)
    if outcome == _START_OVER:
        outcome = Trouble("list_gap", "the list has a gap: it does not continue the stored one")
    trouble = outcome if isinstance(outcome, Trouble) else None
    _record_outcome(on, "check", "list", trouble, token.claims.check_interval_ms)


def _read_list_from(on: Calling, since: int | None, signal: Signal) -> _ListOutcome:
    for _ in range(_MAX_ANSWERS):
        outcome = _request_list(on, since, signal)
        if not isinstance(outcome, int):
            return outcome
        if is_revoked(on):
            return None
        since = outcome
    return None


def _request_list(on: Calling, since: int | None, signal: Signal) -> _ListOutcome:
    path = f"{_app_path(on)}/revocations" + ("" if since is None else f"?since={since}")
    current = revocations_of(on.held).list
    # A 304 is not signed, so a list that has ended must be read again.
    is_confirmable = current and current.etag_since == since and on.time() < current.expires_at
    etag = current.etag if current and is_confirmable else None
    answer = on.ask(Call("GET", path, if_none_match=etag), signal)
    if isinstance(answer, Refused) and answer.status == 422 and since is not None:
        return _START_OVER
    if not isinstance(answer, Success):
        return _trouble_of(answer)
    if answer.status != 304 or etag is None:
        return _receive_list(on, answer, since, signal)
    on.time()
    on.apply(ListUnchanged())
    return None


def _receive_list(on: Calling, answer: Success, since: int | None, signal: Signal) -> _ListOutcome:
    # Only the signed text is used; the other fields are for people.
    jws = _text_in(answer, "signature")
    if jws is None:
        return _trouble_of(answer)

    def read() -> RevocationList | str:
        keys = on.held.keys
        has_ended = keys is not None and keys.expires_at <= on.time()
        return "unknown_key" if has_ended else read_list(jws, keys, on.identity.app_id)

    given = _read_signed(on, read, on.time(), signal)
    if isinstance(given, Failure):
        return _trouble_of(given)
    on.time()
    acceptance = acceptance_of(given, on.held)
    on.apply(ListAnswer(given, answer.etag, since))
    # The first answers of a whole list have lower versions than the current one.
    is_read_on = given.more and given.version > (-1 if since is None else since)
    if is_read_on and acceptance in ("accepted", "list_outdated"):
        return given.version
    if acceptance == "accepted":
        return _trouble_of(answer) if given.more else None
    if acceptance == "list_gap" and since is not None:
        return _START_OVER
    return Trouble(acceptance, f"version {given.version} is expired, or not newer than the stored list")


# Steps that the calls share


def _receive_token(
    on: Calling, answer: Answer, nonce: str, signal: Signal, licence_key: str | None = None
) -> Answer | None:
    """Reads the token of an answer to a request with ``nonce``, and accepts it; None if it is valid."""
    if not isinstance(answer, Success):
        return answer
    jws = _text_in(answer, "token")
    if jws is None:
        return unexpected(answer)
    time = _time_for(on, jws, nonce)
    claims = _read_signed(on, lambda: read_token(jws, on.held.keys, on.identity, time), time, signal)
    if isinstance(claims, Failure):
        return claims
    body = answer.body
    if claims.activation_id != body.get("activation_id") or claims.licence_id != body.get("licence_id"):
        return Failure("untrusted_signature", "the token belongs to another activation")
    floating = isinstance(body.get("lease_ends_at"), str)
    _accept(on, Token(jws, claims, None, floating, None), nonce, licence_key)
    # Fetches the keys before they end, so that a start without the network has keys for a valid token. If this fails, the
    # token is accepted all the same.
    if _are_keys_due(on):
        _fetch_keys(on, signal, time)
    return None


def _accept(on: Calling, token: Token, nonce: str | None, licence_key: str | None = None) -> None:
    on.time()
    on.apply(TokenAnswer(token, nonce, licence_key))
    on.record(with_new_token(on.attempts))


def _time_for(on: Calling, jws: str, nonce: str | None) -> Ms:
    """The time at which an answer to a request with ``nonce`` is checked.

    A token with this nonce was issued after the request: if the trusted time is ahead of the clock, the clock counts. Nothing is
    verified here.
    """
    time = on.time()
    claims = unverified(jws)
    issued_at = claims.get("iat")
    if nonce is None or claims.get("nonce") != nonce or issued_at is None or not is_unix_time(issued_at):
        return time
    issued_at_ms: Ms = issued_at * 1000
    return max(on.held.time.local, issued_at_ms)


def _are_keys_due(on: Calling) -> bool:
    """Whether half of the life of the keys is over. They are renewed then, so that no token lasts longer than its keys."""
    keys = on.held.keys
    return keys is not None and on.time() >= keys.issued_at + (keys.expires_at - keys.issued_at) / 2


_KEYS_REFUSALS = {
    "untrusted_keys": "the keys are not signed with a root key of this product",
    "keys_expired": "the signed keys are past their end, or the clock is ahead",
    "keys_outdated": "the signed keys are older than those held",
}


def _fetch_keys(on: Calling, signal: Signal, time: Ms) -> Failure | None:
    """Fetches the application's public keys and checks them at ``time``; None on success."""
    answer = on.ask(Call("GET", f"{_app_path(on)}/jwks.json"), signal)
    if not isinstance(answer, Success):
        return unexpected(answer)
    keys = read_keys(answer.body, on.identity, on.held.keys, time)
    if keys == "unexpected_answer":
        return unexpected(answer)
    if isinstance(keys, str):
        return Failure(keys, _KEYS_REFUSALS[keys])
    on.apply(keys)
    return None


_T = TypeVar("_T")


def _read_signed(on: Calling, read: Callable[[], Union[_T, str]], time: Ms, signal: Signal) -> _T | Failure:
    """Reads a signed text. If it is signed with an unknown key, the keys are fetched once."""
    value = read()
    if value == "unknown_key":
        problem = _fetch_keys(on, signal, time)
        if problem:
            return problem
        value = read()
    if isinstance(value, str):
        return Failure("untrusted_signature", "not signed by a key of this application")
    return value


def _record_token_outcome(on: Calling, operation: str, problem: Answer | None) -> None:
    """Records a try to get a token: success (None), a refusal, or a failure."""
    token = token_of(on.held)
    claims = token.claims if token else None
    if problem is None:
        _record_problem(on, operation, None)
        # If the new token is due for renewal already, another call would bring no better token, so the next one waits.
        return _set_backoff(on, "token", waits=claims is not None and on.time() >= claims.refresh_after)
    # A token of a short lease needs several tries between half of its life and its end.
    max_ms = (claims.expires_at - claims.issued_at) / 8 if claims else None
    reason = _refusal_in(operation, problem)
    if reason is not None and isinstance(problem, Refused):
        on.apply(Refusal(reason))
        on.record(replace(on.attempts, failure=None))
        return _record_outcome(on, operation, "token", Trouble(reason, problem.detail), max_ms)
    on.record(replace(on.attempts, failure=unexpected(problem).reason))
    return _record_outcome(on, operation, "token", _trouble_of(problem), max_ms)


def _record_outcome(on: Calling, operation: str, kind: str, trouble: Trouble | None, max_ms: Ms | None = None) -> None:
    """Records how an operation ended, and when the next try of its kind may be."""
    _record_problem(on, operation, trouble)
    retry_after = trouble.retry_after_ms if trouble else None
    _set_backoff(on, kind, waits=trouble is not None, retry_after_ms=retry_after, max_ms=max_ms)


def _record_problem(on: Calling, operation: str, trouble: Trouble | None) -> None:
    on.record(with_problem(on.attempts, operation, trouble, on.time()))


def _set_backoff(
    on: Calling, kind: str, *, waits: bool, retry_after_ms: Ms | None = None, max_ms: Ms | None = None
) -> None:
    backoff = on.attempts.backoff
    following = NO_BACKOFF
    if waits:
        share = random.random()  # noqa: S311 - it only spreads the load
        following = after_failure(backoff[kind], on.time(), random=share, retry_after_ms=retry_after_ms, max_ms=max_ms)
    on.record(replace(on.attempts, backoff={**backoff, kind: following}))


def _trouble_of(answer: Answer) -> Trouble:
    failure = unexpected(answer)
    return Trouble(failure.reason, failure.detail, failure.retry_after_ms)


def _is_waiting(on: Calling, kind: str) -> bool:
    """The service answered with a ``Retry-After`` that has not passed."""
    return is_blocked(on.attempts.backoff[kind], on.time())


def _is_offline_now(on: Calling) -> bool:
    """Whether the valid token came in a file. Only another file renews it, because tokens of the service are shorter."""
    token = token_of(on.held)
    return token is not None and token.claims.offline and on.time() < token.claims.expires_at


def is_revoked(on: Calling) -> bool:
    return revocations_of(on.held).named_by is not None


def is_usable(on: Calling) -> bool:
    return grants(status_of(on.held, on.attempts)[0])


def _app_path(on: Calling) -> str:
    return f"/v1/apps/{_encoded(on.identity.app_id)}"


def _path_of(token: Token) -> str:
    return f"/v1/activations/{_encoded(token.claims.activation_id)}"


def _encoded(text: str) -> str:
    return quote(str(text), safe="!*'()")
