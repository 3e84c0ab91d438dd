"""The timer of a client, and when its work is due."""

from __future__ import annotations

import contextlib
import math
import threading
from dataclasses import dataclass
from typing import Callable

from .attempts import Attempts, earliest
from .held import Held, revocations_of, token_of
from .state import status_of
from .time import Ms

# Timers are late after a computer slept, so no timer is longer than a minute.
_MAX_SLEEP_S = 60.0
# The shortest time between two checks.
_MIN_SLEEP_S = 1.0


@dataclass(frozen=True)
class DueTimes:
    """When each kind of background work is due, in milliseconds of trusted time; None: not at all."""

    time: Ms
    """The current time."""
    list: Ms | None = None
    token: Ms | None = None
    token_end: Ms | None = None
    """When the token ends. The state changes then, and listeners are called."""


def due_times(held: Held, attempts: Attempts, *, is_requested: bool, jitter: float) -> DueTimes:
    """The work that is due, at the time that was last observed.

    ``is_requested`` says that the product asked for a licence. ``jitter`` is a number from 0 to 1, constant for the life of a
    client: it spreads installations that were started together.
    """
    time, known, token = held.time.time, revocations_of(held), token_of(held)
    if known.named_by is not None:
        return DueTimes(time)
    if token is None:
        return DueTimes(time, token=_activation_due(held, attempts, is_requested))
    claims = token.claims
    lateness = 0 if claims.offline else (claims.expires_at - claims.issued_at) / 10 * jitter
    is_urgent = held.time.turned_back and not claims.offline
    renewal = earliest(attempts.backoff["token"], time if is_urgent else claims.refresh_after + lateness, time)
    if time >= claims.expires_at:
        return DueTimes(time, token=renewal)
    # Up to a tenth earlier and never later, because a revocation must be noticed within the interval.
    interval = claims.check_interval_ms * (1 - jitter / 10)
    checked_at = known.list.checked_at if known.list and not known.list.more else None
    check = time if checked_at is None else checked_at + interval
    return DueTimes(time, earliest(attempts.backoff["list"], check, time), renewal, claims.expires_at)


def _activation_due(held: Held, attempts: Attempts, is_requested: bool) -> Ms | None:
    """A first activation that failed is retried. If it was refused, it is retried only when the product calls again."""
    backoff = attempts.backoff["token"]
    if not is_requested or backoff.failures == 0 or status_of(held, attempts)[0] != "unlicensed":
        return None
    return earliest(backoff, held.time.time, held.time.time)


class Background:
    """Runs what is due, and does not keep the process alive."""

    def __init__(self, due: Callable[[], DueTimes], work: Callable[[], None]) -> None:
        self._due = due
        self._work = work
        self._timer: threading.Timer | None = None
        self._is_stopped = False
        self._is_working = False
        self._lock = threading.Lock()

    def schedule(self) -> None:
        """Sets the timer for the next work that is due."""
        due = self._due()
        moments = [moment for moment in (due.list, due.token, due.token_end) if moment is not None]
        if not moments:
            return self._set_timer(None)
        # A timer with a fraction of a millisecond can end early, when nothing is due yet.
        until_next = math.ceil(min(moments) - due.time) / 1000
        return self._set_timer(min(max(until_next, _MIN_SLEEP_S), _MAX_SLEEP_S))

    def wake(self) -> None:
        """Renews a token that is due at once: after the machine has slept, the timer may end up to a minute later."""
        due = self._due()
        if due.token is not None and due.token <= due.time and not self._is_working:
            self._set_timer(0)

    def stop(self) -> None:
        self._is_stopped = True
        self._set_timer(None)

    def _set_timer(self, seconds: float | None) -> None:
        with self._lock:
            if self._timer:
                self._timer.cancel()
            self._timer = None
            if seconds is None or self._is_stopped:
                return
            self._timer = threading.Timer(seconds, self._run)
            self._timer.name = "licensing-background"
            self._timer.daemon = True
            # No thread can be started at the end of the process.
            with contextlib.suppress(RuntimeError):
                self._timer.start()

    def _run(self) -> None:
        with self._lock:
            # This timer was replaced when it had just ended.
            if self._timer is not threading.current_thread() or self._is_working:
                return
            self._is_working = True
        try:
            self._work()
        finally:
            self._is_working = False
            self.schedule()
