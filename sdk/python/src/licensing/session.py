"""Keeps the two values of an installation, and a queue: one operation runs at a time."""

from __future__ import annotations

import contextlib
import contextvars
import random
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Callable

from .attempts import Attempts, Trouble, with_new_token, with_problem
from .background import Background, DueTimes, due_times
from .calls import Product, check, refresh
from .held import Held, Verified, absorb, apply, empty_held, observed, token_of, with_file_nonce
from .record import read_record, write_record
from .service import Answer, Ask, Call, Signal, run_until
from .state import LicenceState, state_of
from .store import Store, replace_text
from .time import Ms
from .trust import Identity

#: Called after each change of the state. Its errors are ignored.
Listener = Callable[[LicenceState], Any]

Work = Callable[[], None]


class Session:
    """One operation runs at a time, with a timeout, between a read of the store and a save. Never raises.

    Operations run in a thread of the session, which ends when none is waiting. So a caller waits only for a future, and a call
    can be shared.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        product: Product,
        ask: Ask,
        clock: Callable[[], Ms],
        new_nonce: Callable[[], str],
        store: Store,
        timeout_s: float,
        background: bool,
    ) -> None:
        self.identity = identity
        self.product = product
        self.new_nonce = new_nonce
        self.request: Callable[[], Future[LicenceState]] | None = None
        """Repeats the call with which the product asked for a licence last; None if it has freed the licence since."""
        self._ask = ask
        self._clock = clock
        self._store = store
        self._timeout_s = timeout_s
        self._background = Background(self._due_times, self._run_due_tasks) if background else None
        self._jitter = random.random()  # noqa: S311 - it only spreads the load
        self._held = empty_held(identity.licence_key, clock())
        self._attempts = Attempts()
        self._listeners: dict[object, Listener] = {}
        self._notified_state: LicenceState | None = None
        # The text of the store that was last read or written, if it was read yet.
        self._store_text: str | None = None
        self._is_text_known = False
        # The revision of that text, if it belongs to another licence key or machine.
        self._foreign_revision: int | None = None
        self._store_works = True
        self._is_closed = False
        self._signal = Signal(0)
        # The values are replaced under this lock: the synchronous questions read the clock in the threads of the product.
        self._values = threading.RLock()
        self._queue: deque[Callable[[], None]] = deque()
        self._running: dict[str, Future[LicenceState]] = {}
        self._worker: threading.Thread | None = None
        # Protects the queue, the running operations and the worker.
        self._turns = threading.Lock()

    @property
    def held(self) -> Held:
        return self._held

    @property
    def attempts(self) -> Attempts:
        return self._attempts

    @property
    def state(self) -> LicenceState:
        with self._values:
            self.time()
            return state_of(self._held, self._attempts)

    def time(self) -> Ms:
        with self._values:
            self._held = observed(self._held, self._clock())
            return self._held.time.time

    def apply(self, answer: Verified) -> None:
        with self._values:
            self.time()
            self._held = apply(self._held, answer)

    def record(self, attempts: Attempts) -> None:
        with self._values:
            self._attempts = attempts

    def ask(self, call: Call) -> Answer:
        return self._ask(call, self._signal)

    def nonce_for_file(self) -> str | None:
        """The nonce of a request for an offline file; None if the file need not set the time back."""
        with self._values:
            self.time()
            self._held = with_file_nonce(self._held, self.new_nonce)
            return self._held.licence.nonce

    @property
    def started(self) -> bool:
        """Whether an operation has run, so that the store was read."""
        return self._is_text_known or bool(self._running)

    def run(self, name: str, work: Work) -> Future[LicenceState]:
        """Runs an operation. If the same operation is waiting or running, returns its result."""
        outcome: Future[LicenceState] = Future()
        # The result is shared, so no caller can cancel it.
        outcome.set_running_or_notify_cancel()
        context = contextvars.copy_context()

        def turn() -> None:
            outcome.set_result(context.run(self._perform, name, work))

        with self._turns:
            # If a listener makes a call, the worker cannot wait for itself.
            is_inside = threading.current_thread() is self._worker
            running = self._running.get(name)
            if running and not is_inside:
                return running
            if not is_inside and (self._worker or self._start_worker()):
                self._running[name] = outcome
                self._queue.append(turn)
                return outcome
        outcome.set_result(self._perform(None, work))
        return outcome

    def _start_worker(self) -> bool:
        """False if no thread can be started, as at the end of the process."""
        self._worker = threading.Thread(target=self._take_turns, name="licensing", daemon=True)
        try:
            self._worker.start()
        except RuntimeError:
            self._worker = None
        return self._worker is not None

    def _take_turns(self) -> None:
        while True:
            with self._turns:
                if not self._queue:
                    self._worker = None
                    return
                turn = self._queue.popleft()
            turn()

    def wake(self) -> None:
        """Lets the background renew a token at once that has ended."""
        if self._background:
            self._background.wake()

    def listen(self, listener: Listener) -> Callable[[], None]:
        key = object()
        self._listeners[key] = listener

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def close(self) -> None:
        self._is_closed = True
        self._signal.abort()
        if self._background:
            self._background.stop()
        self._listeners.clear()

    def _perform(self, name: str | None, work: Work) -> LicenceState:
        try:
            self._read()
            if not self._is_closed:
                self._new_signal()
                work()
                self._save()
        except Exception as error:  # noqa: BLE001 - a mistake in this library must not stop the product
            self._record_problem("internal", "unexpected_error", error)
        with self._turns:
            if name is not None:
                del self._running[name]
        self._notify_listeners()
        if self._background and not self._is_closed:
            self._background.schedule()
        return self.state

    def _new_signal(self) -> Signal:
        self._signal = Signal(self._timeout_s)
        if self._is_closed:
            self._signal.abort()
        return self._signal

    def _read(self) -> None:
        """Reads the store before each operation, because other processes may have written.

        After an error, only a save tries again.
        """
        if not self._store_works:
            return
        text = None
        try:
            text = run_until(self._new_signal(), self._store.read)
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            self._store_works = False
            self._record_problem("store", "store_failed", error)
        self._absorb(text)

    def _absorb(self, text: str | None) -> None:
        with self._values:
            if self._is_text_known and text == self._store_text:
                return
            self.time()
            found = read_record(text, self._held, self.identity)
            before = token_of(self._held)
            self._held = absorb(self._held, found.held)
            self._foreign_revision = found.foreign_revision
            self._store_text = text
            self._is_text_known = True
            after = token_of(self._held)
            if not self._attempts.is_store_read:
                # At the first read, the record says why there is no token. A record of another licence key is replaced.
                absence = found.absence or self._attempts.absence
                self._attempts = replace(self._attempts, is_store_read=True, absence=absence)
                if found.foreign_revision is not None:
                    licence = replace(self._held.licence, revision=found.foreign_revision + 1)
                    self._held = replace(self._held, licence=licence)
            elif (before and before.jws) != (after and after.jws):
                self._attempts = with_new_token(self._attempts, None if after else "deactivated")

    def _save(self) -> None:
        signal = Signal(self._timeout_s)

        def change(text: str | None) -> str:
            with self._values:
                if not signal.remaining:
                    raise TimeoutError("the store answered after the save had ended")
                self._absorb(text)
                # The store now belongs to another product or machine, which was activated later.
                if text is not None and (self._foreign_revision or 0) > self._held.licence.revision:
                    return text
                self.nonce_for_file()
                self._foreign_revision = None
                self._store_text = write_record(self._held, self.identity)
                return self._store_text

        update = getattr(self._store, "update", None)
        try:
            run_until(signal, lambda: update(change) if update else replace_text(self._store, change))
            self._store_works = True
            self.record(with_problem(self._attempts, "store", None, self.time()))
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            self._store_works = False
            self._record_problem("store", "store_failed", error)

    def _record_problem(self, operation: str, code: str, error: Exception) -> None:
        detail = str(error) or type(error).__name__
        self.record(with_problem(self._attempts, operation, Trouble(code, detail), self.time()))

    def _notify_listeners(self) -> None:
        state = self.state
        # A change of a problem only counts if its code changed.
        code = state.problem and state.problem.code
        compared = replace(state, problem=None, reason=f"{state.reason} {code}")
        if compared == self._notified_state or self._is_closed:
            return
        self._notified_state = compared
        for listener in list(self._listeners.values()):
            # An error of a listener does not affect the licence.
            with contextlib.suppress(Exception):
                listener(state)

    def _due_times(self) -> DueTimes:
        with self._values:
            self.time()
            return due_times(self._held, self._attempts, is_requested=self.request is not None, jitter=self._jitter)

    def _run_due_tasks(self) -> None:
        before = self._due_times()
        if before.list is not None and before.list <= before.time:
            self.run("check", lambda: check(self)).result()
        # Read again: meanwhile the product may have released or freed its place.
        due = self._due_times()
        if due.token is not None and due.token <= due.time:
            is_held, request = token_of(self._held) is not None, self.request
            if is_held:
                self.run("refresh", lambda: refresh(self)).result()
            elif request:
                request().result()
        self._notify_listeners()
