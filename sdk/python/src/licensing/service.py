"""One HTTP request, and what its answer is."""

from __future__ import annotations

import base64
import contextvars
import http.client
import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, TypeVar, Union
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from .shape import decode, parse_json, text_or_none, write_json
from .time import Ms

_T = TypeVar("_T")


class Signal:
    """Says when work has to end: at its deadline, or when it is aborted."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._is_aborted = False

    @property
    def remaining(self) -> float:
        """The seconds that are left; 0 if the work has to end."""
        return 0 if self._is_aborted else max(0.0, self._deadline - time.monotonic())

    def abort(self) -> None:
        with self._lock:
            self._is_aborted = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_abort(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` when the work is aborted."""
        with self._lock:
            if not self._is_aborted:
                self._callbacks.append(callback)
                return
        callback()


def run_until(signal: Signal, work: Callable[[], _T]) -> _T:
    """Runs work that cannot be interrupted, and waits for it as long as the signal allows.

    Raises:
        TimeoutError: if it has not ended then; its thread is left to itself
    """
    ended = threading.Event()
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)
        ended.set()

    # The product's store and transport see the context variables of the call.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="licensing-call", daemon=True).start()
    signal.on_abort(ended.set)
    ended.wait(signal.remaining)
    if results:
        return results[0]
    if errors:
        raise errors[0]
    signal.abort()
    raise TimeoutError("timed out")


# Transport


@dataclass(frozen=True)
class Request:
    """A request that a transport sends."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    signal: Signal
    """The transport should end when it is aborted, and after ``signal.remaining`` seconds."""


@dataclass(frozen=True)
class Response:
    """The answer to a request. ``body`` is the bytes, or parts of them, which are read only up to a limit."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Union[bytes, Iterable[bytes]] = b""


#: Sends a request without following redirects. Raises any error if there is no answer.
Transport = Callable[[Request], Response]


def http_transport(request: Request) -> Response:
    """Sends a request with the standard library, through the proxy that the environment or the system names."""
    url = urlsplit(request.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{request.url} is not the address of a service")
    via = _proxy_for(url.scheme, url.hostname)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    path = f"{url.path}?{url.query}" if url.query else url.path
    headers = dict(request.headers)
    if via is None:
        connection = kind(url.hostname, url.port, timeout=request.signal.remaining)
    else:
        connection = kind(via.hostname or "", via.port, timeout=request.signal.remaining)
        authorization = _authorization_of(via)
        if url.scheme == "https":
            connection.set_tunnel(url.hostname, url.port, authorization)
        else:
            path = f"http://{url.netloc.rpartition('@')[2]}{path}"
            headers.update(authorization)
    request.signal.on_abort(lambda: _cut(connection))
    connection.request(request.method, path, request.body, headers)
    response = connection.getresponse()
    received = {name.lower(): value for name, value in response.getheaders()}
    return Response(response.status, received, _parts_of(connection, response))


def _proxy_for(scheme: str, host: str) -> SplitResult | None:
    proxy = getproxies().get(scheme)
    if not proxy or proxy_bypass(host):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _authorization_of(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"proxy-authorization": f"Basic {base64.b64encode(user).decode()}"}


def _parts_of(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterable[bytes]:
    try:
        while True:
            part = response.read(65_536)
            if not part:
                break
            yield part
        if response.length:
            raise ConnectionError("the answer was cut off")
    finally:
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    """Ends a connection that another thread waits for."""
    try:
        if connection.sock:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It has ended already.


# Answers


@dataclass(frozen=True)
class Success:
    status: int
    body: Any
    etag: str | None


@dataclass(frozen=True)
class Refused:
    """The service refused the call, in its error format."""

    status: int
    code: str
    reason: str | None
    detail: str


@dataclass(frozen=True)
class Failure:
    """No answer, or not a valid one."""

    reason: str
    detail: str
    retry_after_ms: Ms | None = None


#: The outcome of a call, which never raises.
Answer = Union[Success, Refused, Failure]


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    """Begins with ``/v1``."""
    body: Mapping[str, Any] | None = None
    token: str | None = None
    """The token that authorises the call."""
    if_none_match: str | None = None


Ask = Callable[[Call, Signal], Answer]

# The longest `Retry-After` that is followed, so that one absurd answer does not lock a product out.
_MAX_RETRY_AFTER_MS = 3_600_000

# A whole revocation list has about 1.3 MB. A longer answer is of another server, and would fill the memory.
_MAX_ANSWER_BYTES = 2 * 1024 * 1024


def connect(base_url: object, transport: Transport) -> Ask:
    """Creates the function that makes all network calls."""
    # An invalid address must not stop the start of a product: it counts as unreachable.
    base = str(base_url).rstrip("/")

    def ask(call: Call, signal: Signal) -> Answer:
        headers = {"accept": "application/json"}
        if call.body is not None:
            headers["content-type"] = "application/json"
        if call.token is not None:
            headers["authorization"] = f"Bearer {call.token}"
        if call.if_none_match:
            headers["if-none-match"] = call.if_none_match
        body = None if call.body is None else write_json(call.body).encode("utf-8", "replace")
        request = Request(call.method, base + call.path, headers, body, signal)

        def exchange() -> Answer:
            response = transport(request)
            text = _read_text(response.body)
            if text is None:
                return Failure("unexpected_answer", "the answer is too long")
            return _read_answer(response, text)

        try:
            if signal.remaining:
                return run_until(signal, exchange)
        except Exception as error:  # noqa: BLE001 - whatever a transport raises, there is no answer
            if signal.remaining:
                return Failure("unreachable", str(error) or type(error).__name__)
        return Failure("timeout", f"{call.path} was not answered in time")

    return ask


def _read_text(body: Union[bytes, Iterable[bytes]]) -> str | None:
    """The body of an answer; None if it is too long."""
    raw = bytearray()
    parts = iter([body]) if isinstance(body, bytes) else iter(body)
    for part in parts:
        raw += part
        if len(raw) > _MAX_ANSWER_BYTES:
            close = getattr(parts, "close", None)
            if close:
                close()
            return None
    return decode(bytes(raw))


def _read_answer(response: Response, text: str) -> Answer:
    status, headers = response.status, {name.lower(): value for name, value in response.headers.items()}
    try:
        body = parse_json(text)
    except ValueError:
        body = None
    given = body if isinstance(body, dict) else {}
    detail = text_or_none(given.get("detail")) or f"status {status}"
    if status == 429 or status >= 500:
        return Failure("rate_limited" if status == 429 else "unavailable", detail, retry_after_ms(headers))
    if status in (204, 304) or (200 <= status < 300 and isinstance(body, dict)):
        return Success(status, body, headers.get("etag"))
    if status >= 400 and isinstance(given.get("code"), str):
        return Refused(status, given["code"], text_or_none(given.get("reason")), detail)
    return Failure("unexpected_answer", detail)


def retry_after_ms(headers: Mapping[str, str]) -> Ms | None:
    """How long an answer asks to wait, at most an hour; None if it has no valid ``Retry-After``.

    A date is compared with the ``Date`` of the same answer, because the local clock may be wrong.
    """
    header = headers.get("retry-after", "")
    if re.fullmatch("[0-9]{1,10}", header):
        return min(int(header) * 1000, _MAX_RETRY_AFTER_MS)
    until, sent = _date_of(header), _date_of(headers.get("date", ""))
    if until is None:
        return None
    wait = (until - (time.time() if sent is None else sent)) * 1000
    return min(max(wait, 0), _MAX_RETRY_AFTER_MS)


def _date_of(text: str) -> float | None:
    """The time of a date of HTTP, which is always in GMT."""
    try:
        return parsedate_to_datetime(text).replace(tzinfo=timezone.utc).timestamp()
    except (TypeError, ValueError):
        return None


def unexpected(answer: Answer) -> Failure:
    """An answer that could be read, but is not valid."""
    if isinstance(answer, Failure):
        return answer
    content = f"{answer.code}: {answer.detail}" if isinstance(answer, Refused) else "an unexpected body"
    return Failure("unexpected_answer", f"status {answer.status}, {content}")
