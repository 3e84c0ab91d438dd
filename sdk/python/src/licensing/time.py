"""The time by which tokens are judged.

It starts from the time that the service last signed (or, before that, from the local clock) and moves forward by what the
local clock has moved forward since. It never follows the local clock backward, so turning the clock back gains nothing, and
a clock with a constant error does no harm while the service can be reached.

All values are milliseconds since 1970 UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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


# Texts of times. `datetime` ends with the year 9999.

_DAY_MS = 86_400_000
_ISO = re.compile(
    r"([+-][0-9]{6}|[0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_of(year: int, month: int, day: int) -> int:
    """The days from 1970-01-01 to a date of the Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """The date that many days after 1970-01-01: the inverse of ``days_of``."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day


def timestamp(ms: Ms) -> str:
    """The time as ISO 8601 in UTC, with milliseconds."""
    days, of_day = divmod(int(ms), _DAY_MS)
    year, month, day = date_of(days)
    seconds, millis = divmod(of_day, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):06d}"
    return f"{years}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"


def read_timestamp(text: object) -> Ms | None:
    """The milliseconds of a time in ISO 8601, without an offset in UTC; None if it is none."""
    found = _ISO.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + leap:
        return None
    is_midnight = hour == 24 and minute == second == 0
    if (hour > 23 and not is_midnight) or minute > 59 or second > 59:
        return None
    millis = int((found[7] or "").ljust(3, "0")[:3])
    offset = 0
    if found[8] not in (None, "Z"):
        offset = (int(found[8][1:3]) * 60 + int(found[8][4:6])) * (1 if found[8][0] == "+" else -1)
    of_day = ((hour * 60 + minute - offset) * 60 + second) * 1000 + millis
    ms = days_of(year, month, day) * _DAY_MS + of_day
    return ms if abs(ms) <= MAX_TIME_MS else None
