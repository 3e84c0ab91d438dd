"""Every vector of ``sdk/vectors``, with the client for threads and the one for asyncio."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import unittest
from dataclasses import asdict
from pathlib import Path
from typing import Any

import licensing
import licensing.aio
from licensing.time import read_timestamp

FOLDER = Path(__file__).parents[2] / "vectors"
SHARED = json.loads((FOLDER / "shared.json").read_text("utf-8"))


def resolved(value: Any) -> Any:
    """A part of a vector with its references replaced; see the README of the vectors."""
    if isinstance(value, list):
        return [resolved(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$value" in value:
        return resolved(SHARED["values"][value["$value"]])
    if "$jws" in value:
        return SHARED["documents"][value["$jws"]]["jws"]
    if "$bearer" in value:
        return f"Bearer {SHARED['documents'][value['$bearer']]['jws']}"
    if "$lines" in value:
        return "\n".join(resolved(entry) for entry in value["$lines"])
    return {name: resolved(entry) for name, entry in value.items()}


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


class ScriptedService:
    """A transport that returns the answers of a vector in order, and records the requests."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.answers: list[Any] = []
        self.requests: list[licensing.Request] = []

    def __call__(self, request: licensing.Request) -> licensing.Response:
        self.requests.append(request)
        if len(self.requests) > len(self.answers):
            raise OSError("nothing more was expected")
        response = self.answers[len(self.requests) - 1]["response"]
        if "fails" in response:
            if response["fails"] == "never":
                time.sleep(3600)
            raise OSError("the name cannot be resolved")
        text = json.dumps(response["json"]) if "json" in response else response.get("text", "")
        return licensing.Response(response["status"], response.get("headers", {}), [text.encode()])

    def compare(self, test: unittest.TestCase) -> None:
        seen = [f"{each.method} {each.url[len(self.base_url) :]}" for each in self.requests]
        test.assertEqual(seen, [answer["request"] for answer in self.answers])
        for answer, request in zip(self.answers, self.requests):
            headers = {**request.headers}
            test.assertEqual({**headers, **answer.get("with_headers", {})}, headers)
            test.assertFalse(set(answer.get("without_headers", [])) & set(headers))
            if "with_json" in answer:
                body = json.loads(request.body or b"null")
                test.assertEqual({**body, **answer["with_json"]}, body)


class FailingStore:
    def __init__(self, store: licensing.Store, fails: str) -> None:
        self.store, self.fails = store, fails

    def _fail(self, operation: str) -> None:
        if self.fails == "never":
            time.sleep(3600)
        if self.fails == operation:
            raise OSError("the disk is broken")

    def read(self) -> str | None:
        self._fail("read")
        return self.store.read()

    def write(self, text: str) -> None:
        self._fail("write")
        self.store.write(text)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now / 1000


class Player:
    """Plays a vector with one kind of client."""

    def __init__(self, test: unittest.TestCase, vector: dict[str, Any], kind: type) -> None:
        self.test, self.vector, self.kind = test, vector, kind
        store = licensing.memory_store(None if vector["store"] is None else text_of(vector["store"]))
        self.store = FailingStore(store, vector["store_fails"]) if "store_fails" in vector else store
        self.clock = Clock()
        self.service = ScriptedService(SHARED["client"]["base_url"])

    def client(self, fields: dict[str, Any]) -> Any:
        given = {**SHARED["client"], **self.vector.get("client", {}), **fields}
        nonce = given.pop("nonce")
        must_wait = '"never"' in json.dumps(self.vector)
        return self.kind(
            **given,
            nonce=lambda: nonce,
            store=self.store,
            transport=self.service,
            clock=self.clock,
            timeout_ms=300 if must_wait else 30_000,
            background=False,
        )

    def play(self) -> None:
        self.clock.now = read_timestamp(self.vector["clock"])
        if self.vector.get("refused"):
            with self.test.assertRaises(ValueError):
                self.client({})
            return
        client = self.client({})
        for at, step in enumerate(self.vector["steps"]):
            if "clock" in step:
                self.clock.now = read_timestamp(step["clock"])
            if "store" in step:
                self.store.write(text_of(step["store"]))
            if "restart" in step:
                client = self.client(step["restart"])
            self.service.answers, self.service.requests = step.get("answers", []), []
            with self.test.subTest(step=at + 1):
                self.compare(step, client, self.call(client, step))

    def call(self, client: Any, step: dict[str, Any]) -> licensing.LicenceState:
        if "call" not in step:
            return client.state
        given = [step["argument"]] if "argument" in step else []
        state = getattr(client, step["call"])(*given)
        return state if isinstance(state, licensing.LicenceState) else asyncio.run(state)

    def compare(self, step: dict[str, Any], client: Any, state: licensing.LicenceState) -> None:
        seen = {**asdict(state), "problem": state.problem and state.problem.code}
        self.test.assertEqual({**seen, **step["state"]}, seen)
        for name, ask in (("features", "has_feature"), ("limits", "limit"), ("covers", "covers")):
            expected = step.get(name, {})
            self.test.assertEqual({key: getattr(client, ask)(key) for key in expected}, expected)
        if "offline_request" in step:
            self.test.assertEqual(json.loads(client.create_offline_request()), step["offline_request"])
        self.service.compare(self.test)


def test_of(vector: dict[str, Any], kind: type) -> Any:
    return lambda test: Player(test, vector, kind).play()


def suite_of(file: Path, kind: type) -> type[unittest.TestCase]:
    vectors = resolved(json.loads(file.read_text("utf-8")))
    tests = {f"test {vector['name']}": test_of(vector, kind) for vector in vectors}
    of = "aio" if kind is licensing.aio.LicenceClient else "threads"
    return type(f"{file.stem}_{of}", (unittest.TestCase,), tests)


def webhook_test_of(delivery: dict[str, Any]) -> Any:
    def verify(test: unittest.TestCase) -> None:
        body = delivery["body"].encode() if "body" in delivery else base64.b64decode(delivery["body_base64"])
        given = delivery.get("headers", delivery.get("signature"))
        options = {name: delivery[name] for name in ("tolerance_seconds",) if name in delivery}
        try:
            event = licensing.verify_webhook(
                body,
                given,
                delivery["secrets"],
                clock=lambda: (read_timestamp(delivery["clock"]) or 0) / 1000,
                **options,
            )
        except licensing.WebhookVerificationError as error:
            test.assertEqual(error.reason, delivery["reason"])
        else:
            test.assertIsNone(delivery["reason"])
            test.assertEqual(event, json.loads(body))

    return verify


def webhook_suite() -> type[unittest.TestCase]:
    deliveries = json.loads((FOLDER / "webhooks.json").read_text("utf-8"))
    tests = {f"test {delivery['name']}": webhook_test_of(delivery) for delivery in deliveries}
    return type("webhooks", (unittest.TestCase,), tests)


FILES = sorted(file for file in FOLDER.glob("*.json") if file.stem not in ("shared", "webhooks"))


def load_tests(loader: unittest.TestLoader, _tests: unittest.TestSuite, _pattern: str) -> unittest.TestSuite:
    kinds = (licensing.LicenceClient, licensing.aio.LicenceClient)
    suites = [suite_of(file, kind) for file in FILES for kind in kinds] + [webhook_suite()]
    return unittest.TestSuite(loader.loadTestsFromTestCase(suite) for suite in suites)
