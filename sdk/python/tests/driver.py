"""The driver of Python for the suite of all languages; ``sdk/suite/README.md`` describes its protocol.

With ``--aio`` its clients are those of ``licensing.aio``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

import licensing
import licensing.aio
from licensing.time import read_timestamp

USES_ASYNCIO = "--aio" in sys.argv


class Clock:
    now: float | None = None

    def __call__(self) -> float:
        return time.time() if self.now is None else self.now

    def set(self, text: str | None) -> None:
        self.now = None if text is None else read_timestamp(text) / 1000


clients: dict[str, tuple[Any, Clock]] = {}


def in_notation(state: licensing.LicenceState) -> dict[str, Any]:
    """A state in the notation of the vectors."""
    return {**asdict(state), "problem": state.problem and state.problem.code}


def obey(request: dict[str, Any]) -> dict[str, Any]:
    call, argument = request["call"], request.get("argument")
    if call == "new":
        return open_client(request)
    if call == "machine_fingerprint":
        return {"text": licensing.machine_fingerprint(**argument)}
    if call == "verify_webhook":
        return verify(argument)
    client, clock = clients[request.get("client", "a")]
    if call == "clock":
        clock.set(argument)
        return {"ok": True}
    if call == "close":
        client.close()
        return {"ok": True}
    if call == "create_offline_request":
        return {"text": client.create_offline_request()}
    if call in ("has_feature", "limit", "covers"):
        return {"value": getattr(client, call)(argument)}
    if call == "state":
        return {"state": in_notation(client.state)}
    given = () if argument is None else (argument,)
    state = getattr(client, call)(*given)
    return {"state": in_notation(asyncio.run(state) if USES_ASYNCIO else state)}


def open_client(request: dict[str, Any]) -> dict[str, Any]:
    options = dict(request["options"])
    file = options.pop("store_file", None)
    clock = Clock()
    kind = licensing.aio.LicenceClient if USES_ASYNCIO else licensing.LicenceClient
    client = kind(**options, clock=clock, store=file and licensing.file_store(file))
    clients[request.get("client", "a")] = (client, clock)
    return {"ok": True}


def verify(argument: dict[str, Any]) -> dict[str, Any]:
    clock = Clock()
    clock.set(argument.get("now"))
    given = argument.get("headers", argument.get("signature"))
    tolerance = {name: argument[name] for name in ("tolerance_seconds",) if name in argument}
    body = base64.b64decode(argument["body_base64"])
    try:
        return {"event": licensing.verify_webhook(body, given, argument["secrets"], clock=clock, **tolerance)}
    except licensing.WebhookVerificationError as error:
        return {"reason": error.reason}


output = threading.Lock()


def answer(request: dict[str, Any]) -> None:
    try:
        result = obey(request)
    except Exception as error:
        result = {"threw": str(error) or type(error).__name__}
    with output:
        print(json.dumps({"id": request["id"], **result}), flush=True)


if __name__ == "__main__":
    for line in sys.stdin:
        given = json.loads(line)
        if given["call"] == "exit":
            sys.exit(given["argument"])
        threading.Thread(target=answer, args=(given,), daemon=True).start()
