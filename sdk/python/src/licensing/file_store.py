"""A store in one file."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
import uuid
from pathlib import Path
from typing import Union

from .store import Change, SharedStore


class FileStore:
    """A store in one file; see ``file_store``."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self._path = os.fspath(path)

    def read(self) -> str | None:
        return read_text(self._path)

    def write(self, text: str) -> None:
        self.update(lambda _: text)

    def update(self, change: Change) -> None:
        # The file that the path leads to through symbolic links, even if that file does not exist yet.
        file = os.path.realpath(self._path)
        while True:
            before = read_text(file)
            if _replace(file, before, change(before)):
                return


def file_store(path: Union[str, os.PathLike[str]]) -> SharedStore:
    """A store in one file, readable by its owner only.

    The file is replaced by renaming, so a crash leaves either the old or the new content. Its folder is created if it is
    missing. Several processes may share it, in any language.

    If the file cannot be replaced by renaming (a single mounted file, a read-only folder), it is written in place.

    Args:
        path: of the file; in a container it should be on a volume

    Example:
        >>> store = file_store("/var/lib/acme/licence.json")
    """
    return FileStore(path)


def read_text(path: str) -> str | None:
    """The text of a file; None if there is none."""
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def create_file(path: str, text: str) -> None:
    """Creates a file with this text, unless it exists. No reader sees a part of it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{uuid.uuid4()}"
    try:
        write_file(draft, text, os.O_TRUNC)
        os.link(draft, path)
    finally:
        _remove(draft)


def write_file(path: str, text: str, flag: int) -> None:
    """Writes a file to the disk, with ``O_TRUNC`` or ``O_APPEND``. Only its owner can read it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flag | getattr(os, "O_BINARY", 0), 0o600)
    with open(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        os.fsync(descriptor)


def _replace(path: str, before: str | None, after: str) -> bool:
    """Replaces the text ``before`` of a file by ``after``. False if another process has replaced it first.

    The new text is first written to a file whose name is derived from the old text, so only one process can create it. If
    that process is killed, another one can rename the complete file into place. No process waits for a lock that a crash left
    behind.
    """
    successor = f"{path}.after-{'none' if before is None else _digest(before)}"
    is_ours = True
    try:
        create_file(successor, after)
    except FileExistsError:
        if not _is_abandoned(successor):
            return False
        is_ours = False
    except OSError as error:
        return _write_in_place(path, before, after, error)
    # Checked again now: from here only this successor can replace `before`.
    if read_text(path) != before:
        if is_ours:
            _remove(successor)
        return False
    try:
        os.replace(successor, path)
    except FileNotFoundError:
        pass  # Another process assumed that this one was killed, and has renamed the successor into place.
    except OSError as error:
        _remove(successor)
        return _write_in_place(path, before, after, error)
    return is_ours


# A process that has not finished a write after this time was killed: a write takes a few milliseconds.
_ABANDONED_AFTER_S = 1.0
_POLL_S = 0.005


def _is_abandoned(successor: str) -> bool:
    """Waits until a successor is in place. True if that does not happen, because its process was killed."""
    begun = time.monotonic()
    first = _inode_of(successor)
    while time.monotonic() - begun < _ABANDONED_AFTER_S:
        time.sleep(_POLL_S)
        if _inode_of(successor) != first:
            return False
    return first is not None


def _inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


# Errors of file systems that contain the file, but cannot link or rename in its folder.
_NOT_REPLACEABLE = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EBUSY,
    errno.EXDEV,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
}


def _write_in_place(path: str, before: str | None, after: str, cause: OSError) -> bool:
    if cause.errno not in _NOT_REPLACEABLE:
        raise cause
    if read_text(path) != before:
        return False
    write_file(path, after, os.O_TRUNC)
    return True


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
