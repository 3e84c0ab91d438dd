"""The calls of a product: which requests each one sends, and what follows from each answer.

They read the two values of the session, and change them only by ``apply`` and ``record``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable, Protocol, TypeVar, Union
from urllib.parse import quote

from .attempts import NO_BACKOFF, Attempts, Backoff, Trouble, after_failure, is_blocked, with_new_token, with_problem
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
from .reasons import FILE_REFUSALS
from .service import Answer, Call, Failure, Refused, Success, unexpected
from .shape import text_or_none
from .state import LicenceState
from .time import Ms
from .trust import FileContent, Identity, RevocationList, read_file, read_keys, read_list, read_token, time_for


@dataclass(frozen=True)
class Product:
    """The description of the installation in requests."""

    host: str
    product_version: str


class Calling(Protocol):
    """The session, as the calls see it."""

    identity: Identity
    product: Product
    new_nonce: Callable[[], str]

    @property
    def held(self) -> Held: ...

    @property
    def attempts(self) -> Attempts: ...

    @property
    def state(self) -> LicenceState:
        """Reads the clock; so do ``time`` and ``apply``."""

    def time(self) -> Ms:
        """The trusted time in milliseconds."""

    def apply(self, answer: Verified) -> None: ...

    def record(self, attempts: Attempts) -> None: ...

    def ask(self, call: Call) -> Answer:
        """Sends a request, at most until the call's time has passed."""


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


def activate(on: Calling) -> None:
    """Gets a token, unless there is one that is valid."""
    if on.state.usable or _is_revoked(on):
        return
    is_renewable = token_of(on.held) and on.held.licence.key is None
    (refresh if is_renewable else _activate_key)(on)


def _activate_key(on: Calling) -> None:
    """Activates the licence key, and receives a token."""
    if on.held.licence.key is None:
        return on.record(replace(on.attempts, absence="no_licence_key"))
    if _is_waiting(on, "token"):
        return None
    nonce = on.new_nonce()
    body = {"licence_key": on.held.licence.key, **_installation_of(on), "nonce": nonce}
    request = Call("POST", "/v1/activations", body)
    answer = on.ask(request)
    refusal = _refusal_in("activate", answer)
    is_full = refusal in ("limit_reached", "no_place", "quota_exceeded")
    if is_full and _free_former_activation(on):
        answer = on.ask(request)
    problem = _receive_token(on, answer, nonce)
    # If the vendor has given the licence another key, the activation and its expired token can still be renewed.
    token = token_of(on.held) if refusal == "unknown_licence_key" else None
    if token and _renew_token(on, token) is None:
        problem = None
    return _record_token_outcome(on, "activate", problem)


def _installation_of(on: Calling) -> dict[str, str]:
    return {"fingerprint": on.identity.fingerprint, **_product_of(on)}


def _product_of(on: Calling) -> dict[str, str]:
    return {"host": on.product.host, "product_version": on.product.product_version}


def _free_former_activation(on: Calling) -> bool:
    """Frees the activation that this machine has under its former fingerprint. False if there is none or it cannot be freed."""
    token = on.held.licence.token
    return token is not None and token.former_fingerprint is not None and _is_gone(_ask_for(on, token, "DELETE"))


def _ask_for(on: Calling, token: Token, method: str, verb: str = "", body: Mapping[str, Any] | None = None) -> Answer:
    """Sends a request for the activation of a token."""
    return on.ask(Call(method, f"/v1/activations/{_encoded(token.claims.activation_id)}{verb}", body, token.jws))


def refresh(on: Calling) -> None:
    """Requests a new token for the activation."""
    token = token_of(on.held)
    if token is None or _is_offline_now(on) or _is_revoked(on) or _is_waiting(on, "token"):
        return
    problem = _renew_token(on, token)
    needs_activation = _refusal_in("refresh", problem) in ("token_rejected", "activation_freed")
    # The activation was freed, or its token is too old. If there is a licence key, it is activated again.
    if needs_activation and on.held.licence.key is not None:
        _activate_key(on)
    else:
        _record_token_outcome(on, "refresh", problem)


def _renew_token(on: Calling, token: Token) -> Answer | None:
    """Replaces the token by a new one of its activation; None if that worked."""
    nonce = on.new_nonce()
    return _receive_token(on, _ask_for(on, token, "POST", "/refresh", {**_product_of(on), "nonce": nonce}), nonce)


def call_home(on: Calling) -> None:
    """Tells the service that this installation is in use, whatever the licence's status."""
    token = token_of(on.held)
    if token is None or _is_waiting(on, "token"):
        return
    answer = _ask_for(on, token, "POST", "/call-home", _product_of(on))
    _record_problem(on, "call_home", None if isinstance(answer, Success) else _failure_of(answer))


def release(on: Calling) -> None:
    """Ends the lease of a floating licence, and then the use of the token. The activation stays."""
    token = token_of(on.held)
    if token is None or _is_offline_now(on) or _is_waiting(on, "token"):
        return
    _record_freed(on, "release", _ask_for(on, token, "POST", "/release"), "released" if token.floating else None)


def deactivate(on: Calling) -> None:
    """Frees the activation at the service, then deletes the token."""
    token = token_of(on.held)
    if token is None or _is_waiting(on, "token"):
        return
    _record_freed(on, "deactivate", _ask_for(on, token, "DELETE"), "deactivated")


def _record_freed(on: Calling, operation: str, answer: Answer, absence: str | None) -> None:
    if not _is_gone(answer):
        return _record_outcome(on, operation, "token", _failure_of(answer))
    if absence is not None:
        on.apply(Freed())
        on.record(with_new_token(on.attempts, absence))
    return _record_outcome(on, operation, "token", None)


def _is_gone(answer: Answer) -> bool:
    """The service has freed what was to be freed, or does not know it any more."""
    return isinstance(answer, Success) or (isinstance(answer, Refused) and answer.status == 404)


def start_trial(on: Calling, plan_code: str) -> None:
    """Starts a trial, or continues with the licence key of the trial that was started before."""
    if on.state.usable or _is_revoked(on):
        return None
    if on.held.licence.key is not None:
        return _activate_key(on)
    if _is_waiting(on, "token"):
        return None
    nonce = on.new_nonce()
    body = {"plan_code": plan_code, **_installation_of(on), "nonce": nonce}
    answer = on.ask(Call("POST", f"{_app_path(on)}/trials", body))
    problem = _receive_token(on, answer, nonce, _text_in(answer, "licence_key"))
    return _record_token_outcome(on, "start_trial", problem)


def _text_in(answer: Answer, name: str) -> str | None:
    """A text in the body of a success."""
    is_object = isinstance(answer, Success) and isinstance(answer.body, dict)
    return text_or_none(answer.body.get(name)) if isinstance(answer, Success) and is_object else None


# Blanks, line breaks and invisible characters. NUL is not among them: the service refuses it.
_CONTROL = "\u0001-\u001f\u007f-\u009f\u2800"
_WHITE_SPACE = "\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSEEN = _CONTROL + _WHITE_SPACE + _IGNORABLE
_ENDS = re.compile(rf"\A[{_UNSEEN}]+|[{_UNSEEN}]+\Z")


def migrate(on: Calling, given: str) -> None:
    """Exchanges a legacy key for a licence key, once, and activates with that."""
    legacy_key = _ENDS.sub("", given)
    licence = on.held.licence
    is_exchanged = licence.legacy_key == legacy_key and licence.key is not None
    if not on.state.usable if is_exchanged else _exchange(on, legacy_key):
        _activate_key(on)


def _exchange(on: Calling, legacy_key: str) -> bool:
    if _is_waiting(on, "token"):
        return False
    answer = on.ask(Call("POST", f"{_app_path(on)}/migrate", {"legacy_key": legacy_key}))
    licence_key = _text_in(answer, "key")
    if licence_key is not None:
        on.apply(Exchange(legacy_key, licence_key))
        _record_outcome(on, "migrate", "token", None)
    # A failed exchange does not change the licence held.
    elif token_of(on.held):
        _record_outcome(on, "migrate", "token", _trouble_of("migrate", answer))
    else:
        _record_token_outcome(on, "migrate", answer)
    return licence_key is not None


def activate_offline(on: Calling, text: object) -> None:
    """Reads an offline licence file, without network. If the file is refused, the licence held stays."""
    on.time()
    token = token_of(on.held)
    content = read_file(text, on.identity, on.held, token.claims if token else None)
    if isinstance(content, FileContent):
        _accept(on, Token(content.jws, content.claims, content.file_keys, False, None), on.held.licence.nonce)
        return _record_problem(on, "activate_offline", None)
    if token is None:
        on.apply(Refusal(None))
        on.record(replace(on.attempts, absence=content, failure=None))
    return _record_problem(on, "activate_offline", Trouble(content, FILE_REFUSALS[content]))


# A check reads at most this many answers, about a million licences. The next check goes on from there.
_MAX_ANSWERS = 64

_START_OVER = "start_over"
#: The version from which the list goes on, or how reading it has ended.
_ListOutcome = Union[int, str, Trouble, None]


def check(on: Calling) -> None:
    """Reads the revocation list to its end: the additions since the current version, or the whole list.

    What was received counts and is kept, also if a later answer fails. After a failure the current list stays, at most until the
    token ends.
    """
    if token_of(on.held) is None or _is_revoked(on) or _is_waiting(on, "list"):
        return
    known = revocations_of(on.held).list
    outcome = _read_list_from(on, known.version if known else None)
    # The service does not know the current version, or its list does not continue it: read the whole list.
    if outcome == _START_OVER:
        outcome = _read_list_from(on, None)
    if outcome == _START_OVER:
        outcome = Trouble("list_gap", "the list has a gap: it does not continue the stored one")
    _record_outcome(on, "check", "list", outcome if isinstance(outcome, Trouble) else None)


def _read_list_from(on: Calling, since: int | None) -> _ListOutcome:
    for _ in range(_MAX_ANSWERS):
        outcome = _request_list(on, since)
        if not isinstance(outcome, int):
            return outcome
        if _is_revoked(on):
            return None
        since = outcome
    return None


def _request_list(on: Calling, since: int | None) -> _ListOutcome:
    path = f"{_app_path(on)}/revocations" + ("" if since is None else f"?since={since}")
    current = revocations_of(on.held).list
    # A 304 is not signed, so a list that has ended must be read again.
    is_confirmable = current and current.etag_since == since and on.time() < current.expires_at
    etag = current.etag if current and is_confirmable else None
    answer = on.ask(Call("GET", path, if_none_match=etag))
    if isinstance(answer, Refused) and answer.status == 422 and since is not None:
        return _START_OVER
    if isinstance(answer, Success) and answer.status == 304 and etag is not None:
        on.apply(ListUnchanged())
        return None
    # Only the signed text is used; the other fields are for people.
    jws = _text_in(answer, "signature")
    if not isinstance(answer, Success) or jws is None:
        return _failure_of(answer)

    def read() -> RevocationList | str:
        keys = on.held.keys
        has_ended = keys is not None and keys.expires_at <= on.time()
        return "unknown_key" if has_ended else read_list(jws, keys, on.identity.app_id)

    given = _read_signed(on, on.time(), read)
    if isinstance(given, Failure):
        return _failure_of(given)
    on.time()
    acceptance = acceptance_of(given, on.held)
    on.apply(ListAnswer(given, answer.etag, since))
    # The first answers of a whole list have lower versions than the current one.
    is_read_on = given.more and given.version > (-1 if since is None else since)
    if is_read_on and acceptance in ("accepted", "list_outdated"):
        return given.version
    if acceptance == "accepted":
        return _failure_of(answer) if given.more else None
    if acceptance == "list_gap" and since is not None:
        return _START_OVER
    return Trouble(acceptance, f"version {given.version} is expired, or not newer than the stored list")


# Steps that the calls share


def _receive_token(on: Calling, answer: Answer, nonce: str, licence_key: str | None = None) -> Answer | None:
    """Reads the token of an answer to a request with ``nonce``, and accepts it; None if it is valid."""
    if not isinstance(answer, Success):
        return answer
    jws = _text_in(answer, "token")
    if jws is None:
        return unexpected(answer)
    on.time()
    time, identity = time_for(on.held, jws, nonce), on.identity
    claims = _read_signed(on, time, lambda: read_token(jws, on.held.keys, identity.app_id, identity.fingerprint, time))
    if isinstance(claims, Failure):
        return claims
    named = (_text_in(answer, "activation_id"), _text_in(answer, "licence_id"))
    if named != (claims.activation_id, claims.licence_id):
        return Failure("untrusted_signature", "the token belongs to another activation")
    floating = _text_in(answer, "lease_ends_at") is not None
    _accept(on, Token(jws, claims, None, floating, None), nonce, licence_key)
    # Keys are renewed at half of their life, so that a start without the network has keys for a valid token. If this fails, the
    # token is accepted all the same.
    keys = on.held.keys
    if keys and on.time() >= (keys.issued_at + keys.expires_at) / 2:
        _fetch_keys(on, time)
    return None


def _accept(on: Calling, token: Token, nonce: str | None, licence_key: str | None = None) -> None:
    on.apply(TokenAnswer(token, nonce, licence_key))
    on.record(with_new_token(on.attempts))


_T = TypeVar("_T")


def _read_signed(on: Calling, time: Ms, read: Callable[[], Union[_T, str]]) -> _T | Failure:
    """Reads a signed text. If it is signed with an unknown key, the keys are fetched once, and checked at ``time``."""
    value = read()
    if value == "unknown_key":
        problem = _fetch_keys(on, time)
        if problem:
            return problem
        value = read()
    if isinstance(value, str):
        return Failure("untrusted_signature", "not signed by a key of this application")
    return value


def _fetch_keys(on: Calling, time: Ms) -> Failure | None:
    """Fetches the application's public keys and checks them at ``time``; None on success."""
    answer = on.ask(Call("GET", f"{_app_path(on)}/jwks.json"))
    if not isinstance(answer, Success):
        return unexpected(answer)
    keys = read_keys(answer.body, on.identity, on.held.keys, time)
    if keys == "unexpected_answer":
        return unexpected(answer)
    if isinstance(keys, str):
        return Failure(keys, _KEYS_REFUSALS[keys])
    on.apply(keys)
    return None


_KEYS_REFUSALS = {
    "untrusted_keys": "the keys are not signed with a root key of this product",
    "keys_expired": "the signed keys are past their end, or the clock is ahead",
    "keys_outdated": "the signed keys are older than those held",
}


def _record_token_outcome(on: Calling, operation: str, problem: Answer | None) -> None:
    """Records a try to get a token: success (None), a refusal, or a failure."""
    if problem is None:
        token = token_of(on.held)
        # If the new token is due for renewal already, another call would bring no better token, so the next one waits.
        is_due = token is not None and on.time() >= token.claims.refresh_after
        return _record_outcome(on, operation, "token", None, waits=is_due)
    reason = _refusal_in(operation, problem)
    if reason is not None:
        on.apply(Refusal(reason))
    on.record(replace(on.attempts, failure=unexpected(problem).reason if reason is None else None))
    return _record_outcome(on, operation, "token", _trouble_of(operation, problem))


def _trouble_of(operation: str, answer: Answer) -> Trouble:
    reason = _refusal_in(operation, answer)
    if reason is not None and isinstance(answer, Refused):
        return Trouble(reason, answer.detail)
    return _failure_of(answer)


def _failure_of(answer: Answer) -> Trouble:
    failure = unexpected(answer)
    return Trouble(failure.reason, failure.detail, failure.retry_after_ms)


def _record_outcome(on: Calling, operation: str, kind: str, trouble: Trouble | None, *, waits: bool = False) -> None:
    """Records how an operation ended, and when the next try of its kind may be."""
    _record_problem(on, operation, trouble)
    wait = trouble.retry_after_ms if trouble else None
    following = _next_backoff(on, kind, wait) if trouble or waits else NO_BACKOFF
    on.record(replace(on.attempts, backoff={**on.attempts.backoff, kind: following}))


def _next_backoff(on: Calling, kind: str, retry_after_ms: Ms | None) -> Backoff:
    token, backoff = token_of(on.held), on.attempts.backoff[kind]
    if token is None:
        return after_failure(backoff, on.time(), retry_after_ms)
    claims = token.claims
    # A token of a short lease needs several tries between half of its life and its end.
    longest = claims.check_interval_ms if kind == "list" else (claims.expires_at - claims.issued_at) / 8
    return after_failure(backoff, on.time(), retry_after_ms, longest)


def _record_problem(on: Calling, operation: str, trouble: Trouble | None) -> None:
    on.record(with_problem(on.attempts, operation, trouble, on.time()))


def _is_waiting(on: Calling, kind: str) -> bool:
    """The service answered with a ``Retry-After`` that has not passed."""
    return is_blocked(on.attempts.backoff[kind], on.time())


def _is_offline_now(on: Calling) -> bool:
    """Whether the valid token came in a file. Only another file renews it, because tokens of the service are shorter."""
    token = token_of(on.held)
    return token is not None and token.claims.offline and on.time() < token.claims.expires_at


def _is_revoked(on: Calling) -> bool:
    return revocations_of(on.held).named_by is not None


def _app_path(on: Calling) -> str:
    return f"/v1/apps/{_encoded(on.identity.app_id)}"


def _encoded(text: str) -> str:
    return quote(str(text), safe="!*'()")
