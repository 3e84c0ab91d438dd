"""The time by which tokens are judged.

It starts from the time that the service last signed (or, before that, from the local clock) and moves forward by what the
local clock has moved forward since. It never follows the local clock backward, so turning the clock back gains nothing, and
a clock with a constant error does no harm while the service can be reached.

All values are milliseconds since 1970 UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Union

#: Milliseconds since 1970 UTC, or a span of them.
Ms = Union[int, float]

TURNED_BACK_TOLERANCE_MS = 300_000
"""A smaller step back may be a time synchronisation."""

MAX_TIME_MS = 8.64e15
"""The last time that the store can have: the year 275760."""


@dataclass(frozen=True)
class SeenTime:
    """An observation of the local clock."""

    time: Ms
    """The trusted time at the last observation."""
    local: Ms
    """The local clock at the last observation."""
    turned_back: bool
    """The local clock was found behind its last reading by more than the tolerance, and no token has set the time since."""
    corrections: int
    """How often a token has set the time. The observation with the higher number is newer."""


def first_observation(local: Ms) -> SeenTime:
    """The first observation of a client."""
    return SeenTime(time=local, local=local, turned_back=False, corrections=0)


def observe(seen: SeenTime, local: Ms) -> SeenTime:
    """Observes the local clock."""
    moved = local - seen.local
    return replace(
        seen,
        time=min(seen.time + max(0, moved), MAX_TIME_MS),
        local=local,
        turned_back=seen.turned_back or moved < -TURNED_BACK_TOLERANCE_MS,
    )


def merge_times(mine: SeenTime, theirs: SeenTime) -> SeenTime:
    """Joins two observations that were continued to the same local clock: the one with more corrections, else the later time.

    Commutative, associative and idempotent.
    """
    if mine.corrections != theirs.corrections:
        return mine if mine.corrections > theirs.corrections else theirs
    return SeenTime(
        time=max(mine.time, theirs.time),
        local=max(mine.local, theirs.local),
        turned_back=mine.turned_back or theirs.turned_back,
        corrections=mine.corrections,
    )


def admit(stored: SeenTime, mine: SeenTime) -> SeenTime:
    """An observation from the store, continued to the local clock of ``mine``.

    A store can be edited, so it sets the time back no further than to the local clock.
    """
    return not_before(observe(stored, mine.local), min(mine.time, mine.local))


def not_before(seen: SeenTime, signed_at: Ms) -> SeenTime:
    """Moves the time forward to ``signed_at``, when the service signed something: the current time cannot be earlier."""
    return replace(seen, time=signed_at) if signed_at > seen.time else seen


def correct(seen: SeenTime, time: Ms) -> SeenTime:
    """Sets the time by a token that was issued in answer to a request of this installation.

    Only such a token may set the time back, so that a clock that once ran ahead does not invalidate every later token. A token
    that was kept from earlier may not, even if this installation has not seen it before.
    """
    return SeenTime(time=time, local=seen.local, turned_back=False, corrections=seen.corrections + 1)


def is_ahead(seen: SeenTime) -> bool:
    """Whether the trusted time is ahead of the local clock: then one of the two is, or was, wrong."""
    return seen.time - seen.local > TURNED_BACK_TOLERANCE_MS


# Texts of times. `datetime` ends with the year 9999, but the calendar repeats every 400 years.

_CYCLE_MS = 146_097 * 86_400_000
_START = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ISO = re.compile(
    r"([+-][0-9]{6}|[0-9]{4})(-[0-9]{2}-[0-9]{2})(?:T([0-9]{2}:[0-9]{2})(:[0-9]{2})?([.][0-9]{1,9})?(?:Z|([+-][0-9]{2}:[0-9]{2}))?)?"
)


def timestamp(ms: Ms) -> str:
    """The time as ISO 8601 in UTC, with milliseconds."""
    cycles, rest = divmod(int(ms), _CYCLE_MS)
    at = _START + timedelta(milliseconds=rest)
    year = at.year + 400 * cycles
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    return f"{years}-{at:%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def read_timestamp(text: object) -> Ms | None:
    """The milliseconds of a time in ISO 8601, without an offset in UTC; None if it is none."""
    found = _ISO.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return None
    years, day, minutes, seconds, fraction, offset = found.groups()
    cycles, year = divmod(int(years) - 2000, 400)
    try:
        at = datetime.fromisoformat(f"{2000 + year}{day}T{minutes or '00:00'}{seconds or ':00'}{offset or '+00:00'}")
    except ValueError:
        return None
    ms = (at - _START) // timedelta(milliseconds=1) + int(float(fraction or 0) * 1000) + cycles * _CYCLE_MS
    return ms if abs(ms) <= MAX_TIME_MS else None
