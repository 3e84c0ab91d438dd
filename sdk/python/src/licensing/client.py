"""The client for installed products."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime, timezone
from types import TracebackType
from typing import Callable, Union

from . import calls
from .calls import Product
from .held import token_of
from .service import Transport, connect, http_transport
from .session import Listener, Session
from .shape import write_json
from .state import LicenceState
from .store import Store, memory_store
from .time import MAX_TIME_MS, Ms, read_timestamp
from .trust import Identity, TokenClaims, feature_of, limit_of, read_trust


class Client:
    """The parts of a client that do not wait; ``LicenceClient`` and ``licensing.aio.LicenceClient`` have them both."""

    def __init__(
        self,
        *,
        base_url: str,
        app_id: str,
        root_key: Union[str, Sequence[str]],
        fingerprint: str,
        host: str,
        product_version: str,
        licence_key: str | None = None,
        store: Store | None = None,
        transport: Transport | None = None,
        clock: Callable[[], float] = time.time,
        nonce: Callable[[], str] | None = None,
        timeout_ms: float = 5000,
        background: bool = True,
    ) -> None:
        """Creates a client. It does nothing before its first call.

        Args:
            base_url: address of the licensing service: ``https://licensing.example.com``
            app_id: the application's id, ``app_…``
            root_key: the application's root key, ``lrk_…``, or several while one is being replaced. Compile it into the product;
                do not read it from a file. A signing key is trusted only if one of these root keys has signed it. ``unpinned``
                trusts every key, also one that somebody wrote into the store
            fingerprint: identifies this machine, 1 to 128 characters, the same at every start: see ``machine_fingerprint``
            host: the name of the machine, or the domain that the product serves: any text of 1 to 253 characters without control
                characters. A licence can be restricted to domains
            product_version: the product's version, 1 to 128 characters
            licence_key: the customer's licence key. Not needed if the store has one, or if a legacy key is migrated
            store: keeps the licence over restarts. Default: memory, which keeps nothing
            transport: sends requests. Default: the standard library, with the proxy of the environment
            clock: the local clock in seconds since 1970 UTC
            nonce: for tests: creates the nonce of a request, which its token repeats. Default: random
            timeout_ms: timeout of each call in milliseconds
            background: whether the client checks and refreshes by itself between calls

        Raises:
            ValueError: if ``root_key`` is missing or malformed
        """
        trust = read_trust(root_key)
        self._session = Session(
            identity=Identity(app_id, fingerprint, licence_key, trust),
            product=Product(host, product_version),
            ask=connect(base_url, transport or http_transport),
            clock=_safe_clock(clock),
            new_nonce=nonce or (lambda: secrets.token_hex(16)),
            store=memory_store() if store is None else store,
            timeout_s=timeout_ms / 1000,
            background=background,
        )

    @property
    def state(self) -> LicenceState:
        """The current state. Nothing is granted before the store is read: call ``ready`` or ``activate`` first."""
        return self._session.state

    @property
    def licence_key(self) -> str | None:
        """The licence key in use: the given one, or the one from the store or a migration; None if there is none."""
        return self._session.held.licence.key

    def has_feature(self, key: str) -> bool:
        """Whether a feature is granted now. Returns at once; False for a key that does not exist.

        If the token has ended while the machine slept, the background renews it at once: ``on_change`` reports that.
        """
        claims = self._usable_claims()
        return claims is not None and feature_of(claims, key)

    def limit(self, key: str) -> int:
        """The current value of a limit: an integer; 0 if nothing is granted or the key does not exist."""
        claims = self._usable_claims()
        return 0 if claims is None else limit_of(claims, key)

    def covers(self, released_at: Union[datetime, str]) -> bool:
        """Whether the licence includes updates to a release: False if its updates ended before, else True.

        It says nothing about whether the product is licensed at all: see ``state``.

        Args:
            released_at: when the release was published; a text is ISO 8601, in UTC if it names no zone. True for any other text
        """
        if not self._session.started:
            self._ready()
        token = token_of(self._session.held)
        until = token.claims.updates_until if token else None
        moment = _milliseconds_of(released_at)
        return until is None or moment is None or not until < moment

    def create_offline_request(self) -> str:
        """A request for a licence file, for a machine without a network.

        JSON text, the body of ``POST …/offline-activations`` without ``days``. It contains the licence key if it is known. If the
        clock was ahead and the licence has therefore ended, the request has a nonce, and time counts from the current clock once
        the file is read.
        """
        session = self._session
        licence_key = session.held.licence.key
        nonce = session.nonce_for_file()
        # The file may be read after a restart, so the store must have the nonce.
        if nonce is not None:
            self._ready()
        fields = {
            "licence_key": licence_key,
            "fingerprint": session.identity.fingerprint,
            "host": session.product.host,
            "product_version": session.product.product_version,
            "nonce": nonce,
        }
        return write_json({name: value for name, value in fields.items() if value is not None})

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls ``listener`` after each change of status, reason, token or revocation, in a thread of the client.

        Returns:
            a function that removes the listener
        """
        return self._session.listen(listener)

    def close(self) -> None:
        """Ends the background work and calls that are running.

        ``has_feature`` and ``limit`` still use the current token; other calls return the state without the network.
        """
        self._session.close()

    # The calls, each with a future of the state

    def _ready(self) -> Future[LicenceState]:
        return self._session.run("ready", lambda: None)

    def _activate(self) -> Future[LicenceState]:
        return self._request("activate", lambda: calls.activate(self._session), self._activate)

    def _start_trial(self, plan_code: str) -> Future[LicenceState]:
        name, again = f"start_trial {plan_code}", lambda: self._start_trial(plan_code)
        return self._request(name, lambda: calls.start_trial(self._session, plan_code), again)

    def _migrate(self, legacy_key: str) -> Future[LicenceState]:
        name, again = f"migrate {legacy_key}", lambda: self._migrate(legacy_key)
        return self._request(name, lambda: calls.migrate(self._session, legacy_key), again)

    def _request(
        self, name: str, call: Callable[[], None], again: Callable[[], Future[LicenceState]]
    ) -> Future[LicenceState]:
        """A call that asks for a licence: the background repeats it."""

        def work() -> None:
            self._session.request = again
            call()

        return self._session.run(name, work)

    def _activate_offline(self, file: str) -> Future[LicenceState]:
        return self._session.run(f"activate_offline {file}", lambda: calls.activate_offline(self._session, file))

    def _refresh(self) -> Future[LicenceState]:
        return self._session.run("refresh", lambda: calls.refresh(self._session))

    def _check(self) -> Future[LicenceState]:
        return self._session.run("check", lambda: calls.check(self._session))

    def _deactivate(self) -> Future[LicenceState]:
        return self._session.run("deactivate", lambda: self._free(calls.deactivate))

    def _release(self) -> Future[LicenceState]:
        return self._session.run("release", lambda: self._free(calls.release))

    def _free(self, call: Callable[[Session], None]) -> None:
        call(self._session)
        if token_of(self._session.held) is None:
            self._session.request = None

    def _call_home(self) -> Future[LicenceState]:
        return self._session.run("call_home", lambda: calls.call_home(self._session))

    def _usable_claims(self) -> TokenClaims | None:
        # The first call starts the client, and is answered at once, from the token that is known at that moment.
        if not self._session.started:
            self._ready()
        if self._session.state.usable:
            token = token_of(self._session.held)
            return token.claims if token else None
        self._session.wake()
        return None


class LicenceClient(Client):
    """The licence of one installation of a product.

    Only the constructor raises, if ``root_key`` is missing or malformed. ``has_feature`` and ``limit`` return at once, from the
    verified token. The first call reads the store and, unless ``background`` is false, starts a timer, which does not keep the
    process alive. Every thread may call it. A process that forks creates its client after the fork.

    Example:
        >>> licence = LicenceClient(
        ...     base_url="https://licensing.example.com",
        ...     app_id="app_01k…",
        ...     root_key="lrk_…",
        ...     licence_key="7ZK2M-…",
        ...     fingerprint=machine_fingerprint(app_id="app_01k…"),
        ...     host="build-7.example.com",
        ...     product_version="4.2.0",
        ...     store=file_store("/var/lib/acme/licence.json"),
        ... )
        >>> licence.activate()
        >>> if licence.has_feature("export_pdf"):
        ...     enable_export()
    """

    def ready(self) -> LicenceState:
        """Reads the store and verifies its content, without the network."""
        return self._ready().result()

    def activate(self) -> LicenceState:
        """Activates the product: call it at every start.

        If the store has a valid token, it returns without the network; otherwise it activates the licence key on this machine. If
        the service cannot be reached, the background retries.

        Returns:
            the state, after ``timeout_ms`` or little more
        """
        return self._activate().result()

    def start_trial(self, plan_code: str) -> LicenceState:
        """Starts a trial, or continues it: call it instead of ``activate`` at each start of a product that has no licence key.

        Each machine has one trial of a product, permanently. The store keeps the licence key of the trial. If the client has a
        licence key, that key is activated.

        Args:
            plan_code: the code of a plan with ``trial_days``

        Returns:
            the state; after the trial ``refused`` with the reason ``expired`` or ``trial_used``
        """
        return self._start_trial(plan_code).result()

    def activate_offline(self, file: str) -> LicenceState:
        """Reads a licence file from the vendor, without the network, and keeps it in the store.

        A file that is refused changes nothing, and ``state`` says why. It needs a ``root_key``.

        Args:
            file: the text of the file
        """
        return self._activate_offline(file).result()

    def refresh(self) -> LicenceState:
        """Renews the token now. The background does this at half of the token's life.

        The valid token of a licence file is not renewed, because a token of the service is shorter.

        Returns:
            the state; after a refusal (``suspended``, ``expired``, …) a valid token still counts until its end
        """
        return self._refresh().result()

    def check(self) -> LicenceState:
        """Checks the revocation list now. The background does this within the check interval of the token.

        Returns:
            the state: ``refused`` with the reason ``revoked`` if the list has this licence
        """
        return self._check().result()

    def migrate(self, legacy_key: str) -> LicenceState:
        """Exchanges a key of the vendor's former system for a licence key, stores that, and activates it.

        Can be called at every start: a key is exchanged once.

        Args:
            legacy_key: the former key, as the vendor imported it
        """
        return self._migrate(legacy_key).result()

    def deactivate(self) -> LicenceState:
        """Frees the activation of this machine, so that the licence can be used on another one.

        If the service cannot be reached, nothing changes and ``state.problem`` says so: try again.
        """
        return self._deactivate().result()

    def release(self) -> LicenceState:
        """Ends the lease of a floating licence, so that another installation can use it at once: call it when the product ends.

        The activation stays, and ``activate`` takes a lease again. Without it the lease ends by itself. If several processes share
        the store, they share the lease: call it when the last one ends. On any other licence it changes nothing.
        """
        return self._release().result()

    def call_home(self) -> LicenceState:
        """Reports to the vendor that this installation is in use, with its host and version. A refresh reports it too."""
        return self._call_home().result()

    def __enter__(self) -> LicenceClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _safe_clock(clock: Callable[[], float]) -> Callable[[], Ms]:
    """A clock that raises or returns no time must not stop the product."""

    def read() -> Ms:
        try:
            now = clock() * 1000
            if not math.isnan(now) and abs(now) <= MAX_TIME_MS:
                return now
        except Exception:  # noqa: BLE001, S110 - the clock of the machine is used instead
            pass
        return time.time() * 1000

    return read


def _milliseconds_of(moment: object) -> Ms | None:
    if not isinstance(moment, datetime):
        return read_timestamp(moment)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1000
