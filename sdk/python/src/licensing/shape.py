"""Checks of values from outside, and JSON as all SDKs read and write it."""

from __future__ import annotations

import json
import re
from typing import Any, Union

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _number(text: str) -> Union[int, float]:
    # 1, 1.0 and 1e0 are one number. Larger ones than 2^53 are not whole numbers, because not every language can represent them.
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def parse_json(text: str) -> Any:
    """The value of a text of JSON.

    Raises:
        ValueError: if it is not JSON, or is nested too deeply
    """
    try:
        return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def write_json(value: Any) -> str:
    """A value as JSON, without blanks and with as few escapes as possible."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def decode(raw: bytes) -> str:
    """Bytes as UTF-8, without a byte order mark; never raises."""
    return raw.decode("utf-8-sig", "replace")


def is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """A whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_unix_time(value: object) -> bool:
    """Seconds since 1970 UTC."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 8.64e12


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
