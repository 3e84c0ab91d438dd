"""The interface of stores, and the store in memory."""

from __future__ import annotations

import threading
from typing import Callable, Protocol

#: Makes the next text of a store from the present one, None if there is none.
Change = Callable[["str | None"], str]


class Store(Protocol):
    """Keeps the knowledge of an installation between starts: one text, which is replaced as a whole.

    All functions may raise: the client then continues in memory, and ``state.problem`` says so. A store that several processes
    share needs ``update`` too; see ``SharedStore``. Without it, a process can overwrite what another one wrote between ``read``
    and ``write``.
    """

    def read(self) -> str | None:
        """The text last written, or None if there is none."""

    def write(self, text: str) -> None:
        """Replaces the text; should be atomic."""


class SharedStore(Store, Protocol):
    """A store that several processes can share."""

    def update(self, change: Change) -> None:
        """Replaces the text by ``change(text)`` atomically.

        Under an exclusive lock, or by compare-and-swap, with another call of ``change`` for the new text after each failure. A
        lock must end with the process that holds it.
        """


class MemoryStore:
    """A store in memory, which ends with the process: the default."""

    def __init__(self, text: str | None = None) -> None:
        self._text = text
        self._lock = threading.Lock()

    def read(self) -> str | None:
        return self._text

    def write(self, text: str) -> None:
        self._text = text

    def update(self, change: Change) -> None:
        while True:
            before = self._text
            after = change(before)
            with self._lock:
                if self._text is before:
                    self._text = after
                    return


def memory_store(text: str | None = None) -> SharedStore:
    """A store in memory, which ends with the process. ``text`` is its first content."""
    return MemoryStore(text)


_MAX_TRIES = 3


def replace_text(store: Store, change: Change) -> None:
    """Updates a store that has no ``update``: reads, changes, writes, and reads again to check.

    Another process can still overwrite it after the last check.
    """
    found = store.read()
    for _ in range(_MAX_TRIES):
        text = change(found)
        store.write(text)
        found = store.read()
        if found == text:
            return
    raise RuntimeError("another process keeps replacing the content of the store")
