"""A fingerprint of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Callable, Union

from .file_store import create_file, read_text, write_file

# White space as in every other language: Python's own set differs.
_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def machine_fingerprint(*, app_id: str, file: Union[str, os.PathLike[str], None] = None) -> str:
    """A fingerprint of this machine: 64 hexadecimal characters, the same at every start, in every language.

    It is a hash, so the machine's own id is not sent. An id that many machines share (``uninitialized``, zeros, a vendor's
    placeholder) is skipped. If the machine has no id, its host name is used.

    Args:
        app_id: the application's id: the same machine has another fingerprint in another application
        file: a file with a random id, which is used instead of the machine's own. For containers, which have no id or share the
            one of their image: put the file on a volume. Processes that start at the same time use one id.

    Raises:
        OSError: if ``file`` is given and can be neither read nor written

    Example:
        >>> fingerprint = machine_fingerprint(app_id="app_01k…", file="/data/installation-id")
    """
    machine = (machine_id(sys.platform) or socket.gethostname()) if file is None else _kept_id(os.fspath(file))
    return hashlib.sha256(f"{app_id}\n{machine}".encode()).hexdigest()


def _kept_id(file: str) -> str:
    """The id in a file; a new one if there is none yet."""
    path = os.path.realpath(file)
    kept = _first_line(path)
    if kept is not None:
        return kept
    line = f"{uuid.uuid4()}\n"
    # Created exclusively, so that one of several processes decides. If that is not possible, because the file exists and is
    # empty or because the file system has no links, the first line that is appended decides.
    with contextlib.suppress(OSError):
        create_file(path, line)
    if _first_line(path) is None:
        write_file(path, line, os.O_APPEND)
    kept = _first_line(path)
    if kept is None:
        raise OSError(f"{file} does not keep what is written to it")
    return kept


def _first_line(path: str) -> str | None:
    """The first line that is not blank. After a crash, text that was not written to the disk yet reads as NUL characters."""
    lines = re.split("[\r\n]+", (read_text(path) or "").replace("\0", ""))
    return next((line.strip(_SPACE) for line in lines if line.strip(_SPACE)), None)


def _content(path: str) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        return read_text(path) or ""
    except OSError:
        return ""


def _printed(command: Sequence[str]) -> str:
    """The output of a command; empty if it fails."""
    try:
        # No window of a console appears on Windows.
        flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
        done = subprocess.run(command, capture_output=True, check=True, timeout=2, creationflags=flags)
        return done.stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""


def machine_id(
    platform: str,
    content: Callable[[str], str] = _content,
    printed: Callable[[Sequence[str]], str] = _printed,
) -> str | None:
    """The id that the operating system gives the machine; None if it has none of its own."""
    if platform == "darwin":
        found = re.search('"IOPlatformUUID" = "(.+?)"', printed(["ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]))
        return _first_good(found[1] if found else "")
    if platform == "win32":
        key = r"HKLM\SOFTWARE\Microsoft\Cryptography"
        # A program of 32 bits is shown another registry, which has no such value.
        found = re.search(
            r"MachineGuid\s+REG_SZ\s+(.+)", printed(["reg", "query", key, "/v", "MachineGuid", "/reg:64"])
        )
        return _first_good(found[1] if found else "")
    return _first_good(content("/etc/machine-id"), content("/var/lib/dbus/machine-id"))


def _first_good(*ids: str) -> str | None:
    return next((each.strip(_SPACE) for each in ids if not _is_placeholder(each)), None)


# Placeholders that many machines have instead of an id: systemd's before the first boot, and the defaults of firmware whose
# maker wrote no id. Letters and digits only, in lower case.
_PLACEHOLDERS = {
    "uninitialized",
    "none",
    "null",
    "unknown",
    "na",
    "notapplicable",
    "notavailable",
    "notspecified",
    "notsettable",
    "invalid",
    "default",
    "defaultstring",
    "systemserialnumber",
    "serialnumber",
    "tobefilledbyoem",
    "oem",
    "oemstring",
    "03000200040005000006000700080009",
    "00020003000400050006000700080009",
    "123456781234567890abcddeefaabbcc",
    "1234567812345678123456789abcdef0",
    "12345678901234567890123456789012",
    "0123456789abcdef0123456789abcdef",
    "4c4c454400002010802080c04f202020",
    "fefefefefefefefefefefefefefefefe",
}


def _is_placeholder(text: str) -> bool:
    """Whether a text is blank, a placeholder, or one character repeated (zeros): no id of one machine."""
    plain = re.sub("[^a-z0-9]", "", text.lower())
    return re.fullmatch(r"(.?)\1*", plain) is not None or plain in _PLACEHOLDERS
