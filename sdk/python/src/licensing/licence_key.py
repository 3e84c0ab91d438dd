"""The written forms of a licence key."""

from __future__ import annotations

import re

# NUL is not among them: it cannot be stored, and each reader of a text refuses it.
_CONTROL = "\u0001-\u001f\u007f-\u009f\u2800"
_WHITE_SPACE = "\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSEEN = _CONTROL + _WHITE_SPACE + _IGNORABLE

# Punctuation of the category Pd; then modifier minus, hyphen bullet, superscript, subscript, minus sign and heavy minus.
_DASH = (
    "\\-\u058a\u05be\u1400\u1806\u2010-\u2015\u2e17\u2e1a\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0\ufe31\ufe32\ufe58\ufe63"
    "\uff0d\U00010d6e\U00010ead\u02d7\u2043\u207b\u208b\u2212\u2796"
)

_SEPARATORS = re.compile(f"[{_UNSEEN}{_DASH}]+")
_ENDS = re.compile(rf"\A[{_UNSEEN}]+|[{_UNSEEN}]+\Z")


def read_licence_key(text: str) -> str | None:
    """Converts a licence key as somebody typed, copied or printed it to the form in which it was issued; None if it is none.

    Case and separators do not count, and the letters that Crockford's base 32 does not have are the digits that they resemble.
    """
    characters = _SEPARATORS.sub("", text)
    if not re.fullmatch("[0-9A-Za-z]{25}", characters):
        return None
    key = characters.upper().replace("O", "0").replace("I", "1").replace("L", "1")
    return None if "U" in key else "-".join(key[at : at + 5] for at in range(0, 25, 5))


def trim_unseen(text: str) -> str:
    """A text without blanks and invisible characters at both ends: legacy keys are compared and stored like that."""
    return _ENDS.sub("", text)
