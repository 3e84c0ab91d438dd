"""The outcomes of the calls of this process: a value beside ``Held``, which ends with the process.

It explains the state and decides when the next call may be. Times are in milliseconds of trusted time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .reasons import Problem
from .time import Ms, timestamp


@dataclass(frozen=True)
class Backoff:
    """When the service may be called again for one kind of request."""

    failures: int = 0
    retry_at: Ms = 0
    """When the background tries again after a failure."""
    blocked_until: Ms = 0
    """No call before this time (``Retry-After``)."""


NO_BACKOFF = Backoff()


@dataclass(frozen=True)
class Attempts:
    """The attempts of a client that was just created."""

    is_store_read: bool = False
    absence: str = "not_activated"
    """Why there is no token, before the service was asked."""
    failure: str | None = None
    """The reason, if the last try to get a token failed."""
    problem: Problem | None = None
    """The most recent problem, unless a later success has ended it."""
    backoff: Mapping[str, Backoff] = field(default_factory=lambda: {"token": NO_BACKOFF, "list": NO_BACKOFF})
    """When the service may be asked again for a ``token``, and for a revocation ``list``."""


@dataclass(frozen=True)
class Trouble:
    """A problem before it is recorded."""

    code: str
    detail: str
    retry_after_ms: Ms | None = None


def with_problem(attempts: Attempts, operation: str, trouble: Trouble | None, time: Ms) -> Attempts:
    """Records the problem of an operation at ``time``. A success (None) ends the problem of the same operation only."""
    if trouble:
        return replace(attempts, problem=Problem(operation, trouble.code, trouble.detail, timestamp(time)))
    is_same = attempts.problem is not None and attempts.problem.operation == operation
    return replace(attempts, problem=None) if is_same else attempts


# The operations that do not concern a token.
_OTHER_OPERATIONS = {"check", "call_home", "store", "internal"}


def with_new_token(attempts: Attempts, absence: str | None = None) -> Attempts:
    """There is another token, or none any more (``absence``): former failures and problems of tokens have ended."""
    problem = attempts.problem
    if problem and problem.operation not in _OTHER_OPERATIONS:
        problem = None
    return replace(attempts, absence=absence or attempts.absence, failure=None, problem=problem)


_FIRST_DELAY_MS = 30_000
_MAX_DELAY_MS = 3_600_000


def after_failure(backoff: Backoff, time: Ms, retry_after_ms: Ms | None, max_ms: Ms = _MAX_DELAY_MS) -> Backoff:
    """The pace after a failure: 30 s, doubling to an hour, shortened by up to half at random, so that products do not retry together.

    ``retry_after_ms`` is the wait that the service asked for, and ``max_ms`` the longest other wait.
    """
    doubled = _FIRST_DELAY_MS * 2 ** min(backoff.failures, 20)
    delay = min(doubled, max_ms, _MAX_DELAY_MS) * (1 - random.random() / 2)  # noqa: S311 - it only spreads the load
    return Backoff(
        failures=backoff.failures + 1,
        retry_at=time + max(delay, retry_after_ms or 0),
        blocked_until=0 if retry_after_ms is None else time + retry_after_ms,
    )


def is_blocked(backoff: Backoff, time: Ms) -> bool:
    """Whether a ``Retry-After`` of the service has not passed yet."""
    return _is_ahead(backoff.blocked_until, time)


def earliest(backoff: Backoff, wanted: Ms, time: Ms) -> Ms:
    """The earliest time, from ``wanted`` on, at which the background may try."""
    return max(wanted, backoff.retry_at) if _is_ahead(backoff.retry_at, time) else wanted


def _is_ahead(moment: Ms, time: Ms) -> bool:
    """Whether a time is in the future. If it is further ahead than the longest wait, a wrong clock has set it: it is ignored."""
    return moment > time and moment - time <= _MAX_DELAY_MS
