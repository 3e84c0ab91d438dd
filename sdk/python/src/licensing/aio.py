"""The client for installed products that use asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future
from types import TracebackType
from typing import Callable

from .client import Client
from .session import Listener
from .state import LicenceState


class LicenceClient(Client):
    """The licence of one installation of a product, with coroutines: the same calls as ``licensing.LicenceClient``.

    A coroutine that is cancelled stops waiting; the call goes on for others that wait for it, at most ``timeout_ms``.

    Example:
        >>> async with LicenceClient(...) as licence:
        ...     await licence.activate()
        ...     if licence.has_feature("export_pdf"):
        ...         enable_export()
    """

    async def ready(self) -> LicenceState:
        """Reads the store and verifies its content, without the network."""
        return await _result(self._ready())

    async def activate(self) -> LicenceState:
        """Activates the product: await it at every start. See ``licensing.LicenceClient.activate``."""
        return await _result(self._activate())

    async def start_trial(self, plan_code: str) -> LicenceState:
        """Starts a trial, or continues it. See ``licensing.LicenceClient.start_trial``."""
        return await _result(self._start_trial(plan_code))

    async def activate_offline(self, file: str) -> LicenceState:
        """Reads a licence file from the vendor, and keeps it in the store. See ``licensing.LicenceClient.activate_offline``."""
        return await _result(self._activate_offline(file))

    async def refresh(self) -> LicenceState:
        """Renews the token now. See ``licensing.LicenceClient.refresh``."""
        return await _result(self._refresh())

    async def check(self) -> LicenceState:
        """Checks the revocation list now. See ``licensing.LicenceClient.check``."""
        return await _result(self._check())

    async def migrate(self, legacy_key: str) -> LicenceState:
        """Exchanges a key of the vendor's former system, and activates. See ``licensing.LicenceClient.migrate``."""
        return await _result(self._migrate(legacy_key))

    async def deactivate(self) -> LicenceState:
        """Frees the activation of this machine. See ``licensing.LicenceClient.deactivate``."""
        return await _result(self._deactivate())

    async def release(self) -> LicenceState:
        """Ends the lease of a floating licence. See ``licensing.LicenceClient.release``."""
        return await _result(self._release())

    async def call_home(self) -> LicenceState:
        """Reports to the vendor that this installation is in use. See ``licensing.LicenceClient.call_home``."""
        return await _result(self._call_home())

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls ``listener`` after each change of status, reason, token or revocation, in the event loop of the caller.

        Returns:
            a function that removes the listener
        """
        loop = asyncio.get_running_loop()
        return super().on_change(lambda state: loop.call_soon_threadsafe(_call, listener, state))

    async def __aenter__(self) -> LicenceClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _result(outcome: Future[LicenceState]) -> LicenceState:
    return await asyncio.wrap_future(outcome)


def _call(listener: Listener, state: LicenceState) -> None:
    # An error of a listener does not affect the licence.
    with contextlib.suppress(Exception):
        listener(state)
