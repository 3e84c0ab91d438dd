"""How long an answer asks to wait."""

from __future__ import annotations

import re

from .time import Ms, date_of, days_of

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# RFC 9110, section 5.6.7: the usual form, that of RFC 850, and that of C's asctime.
_TIME = "(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)"
_MONTH = "(?P<month>[A-Z][a-z]{2})"
_FORMS = (
    re.compile(f"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(f"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(f"[A-Z][a-z]{{2}} {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


def parse_http_date(text: str, now_ms: Ms) -> Ms | None:
    """The time of a date in a header of HTTP, in milliseconds since 1970; None for any other text.

    ``now_ms`` decides the century of a year with two digits.
    """
    found = next((each for each in (form.fullmatch(text) for form in _FORMS) if each), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[name]) for name in ("day", "year", "hour", "minute", "second"))
    if len(found["year"]) == 2:
        year = _full_year(year, now_ms)
    days = days_of(year, _MONTHS.index(found["month"]) + 1, day)
    # 31 June is a day in July.
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 if date_of(days)[2] == day else None


def _full_year(digits: int, now_ms: Ms) -> int:
    """A year with two digits that seems to be more than 50 years ahead is the last year in the past that ends like this."""
    now = date_of(int(now_ms // 86_400_000))[0]
    year = now - now % 100 + digits
    return year - 100 if year > now + 50 else year


def retry_after_ms(header: str | None, now_ms: Ms, sent_at: str | None) -> Ms | None:
    """How long a ``Retry-After`` header asks to wait, in milliseconds; None if it has no valid value.

    A date is compared with ``sent_at``, the ``Date`` header of the same answer, because the local clock may be wrong.
    """
    if header is None:
        return None
    if re.fullmatch("[0-9]{1,10}", header):
        return int(header) * 1000
    until = parse_http_date(header, now_ms)
    sent = None if sent_at is None else parse_http_date(sent_at, now_ms)
    return None if until is None else max(until - (now_ms if sent is None else sent), 0)
