"""Threads, asyncio, listeners and the background of a client."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable

import licensing
import licensing.aio
from service import Service, options_for


def eventually(condition: Callable[[], Any], timeout: float = 10) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the condition did not become true")
        time.sleep(0.01)


def client_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("licensing")]


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        self.service = Service()
        self.addCleanup(lambda: eventually(lambda: client_threads() == []))

    def client(self, **changes: Any) -> licensing.LicenceClient:
        client = licensing.LicenceClient(**options_for(self.service, **changes))
        self.addCleanup(client.close)
        return client


class ThreadsTest(ClientTest):
    def test_calls_of_many_threads_share_one_request(self) -> None:
        client = self.client()
        client.activate()
        asked = len(self.service.requests)
        ready, release = threading.Barrier(21), threading.Event()

        def hold(request: licensing.Request) -> licensing.Response:
            release.wait()
            self.service.instead = None
            return self.service(request)

        self.service.instead = hold
        states: list[licensing.LicenceState] = []

        def refresh() -> None:
            ready.wait()
            states.append(client.refresh())

        threads = [threading.Thread(target=refresh) for _ in range(20)]
        for thread in threads:
            thread.start()
        ready.wait()
        eventually(lambda: len(self.service.requests) > asked)
        time.sleep(0.05)
        release.set()
        for thread in threads:
            thread.join()
        self.assertEqual([state.status for state in states], ["licensed"] * 20)
        self.assertLessEqual(len(self.service.requests) - asked, 3)

    def test_questions_never_disagree_while_calls_run(self) -> None:
        client = self.client()
        client.activate()
        answers: set[tuple[bool, int]] = set()
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                answers.add((client.has_feature("export_pdf"), client.limit("max_projects")))
                client.covers("2026-11-01")

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(15):
            client.refresh()
            client.check()
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, {(True, 25)})
        self.assertIsNone(client.state.problem)

    def test_calls_run_in_their_order(self) -> None:
        client = self.client()
        futures = [client._activate(), client._deactivate(), client._refresh()]
        states = [future.result() for future in futures]
        self.assertEqual(
            [states[0].status, states[1].reason, states[2].reason], ["licensed", "deactivated", "deactivated"]
        )

    def test_a_listener_may_call_the_client_and_may_fail(self) -> None:
        client = self.client()
        heard: list[str] = []

        def refresh(state: licensing.LicenceState) -> None:
            heard.append(f"{state.status} {client.check().revocations}")
            raise RuntimeError("a mistake of the product")

        end = client.on_change(refresh)
        client.activate()
        self.assertIn("licensed current", heard)
        end()
        heard.clear()
        client.deactivate()
        self.assertEqual(heard, [])

    def test_the_transport_sees_the_context_of_the_call(self) -> None:
        request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id")
        seen: list[str] = []

        def transport(request: licensing.Request) -> licensing.Response:
            seen.append(request_id.get("none"))
            return self.service(request)

        client = self.client(transport=transport)
        request_id.set("42")
        client.activate()
        self.assertEqual(set(seen), {"42"})

    def test_mistakes_in_options_never_raise(self) -> None:
        def fails(*_: object) -> Any:
            raise KeyError("a mistake of the product")

        for changes in (
            {"base_url": None},
            {"base_url": "no address"},
            {"transport": fails},
            {"transport": lambda _: None},
            {"clock": fails},
            {"clock": lambda: "now"},
            {"nonce": fails},
            {"app_id": None, "licence_key": 7, "fingerprint": None, "host": None},
        ):
            with self.subTest(changes):
                given = {"transport": None, **changes} if "base_url" in changes else changes
                state = self.client(**given).activate()
                self.assertIn(state.status, ("licensed", "unlicensed"))


class BackgroundTest(ClientTest):
    def test_it_renews_the_token_and_ends_with_the_client(self) -> None:
        self.service.token_life_s = 4
        client = self.client(background=True)
        first = client.activate()
        eventually(lambda: client.state.expires_at != first.expires_at)
        self.assertEqual(client.state.revocations, "current")
        client.close()
        eventually(lambda: client_threads() == [])
        asked = len(self.service.requests)
        self.assertEqual(client.refresh().status, "licensed")
        self.assertEqual(len(self.service.requests), asked)

    def test_it_does_not_exist_before_the_first_call(self) -> None:
        self.client(background=True)
        self.assertEqual(client_threads(), [])


class ExitTest(unittest.TestCase):
    def run_program(self, *lines: str) -> subprocess.CompletedProcess[str]:
        """Runs a program that has a client whose service waits, once its first call has asked."""
        program = [
            "import sys, threading, licensing",
            "from service import Service, options_for",
            "asked, service = threading.Event(), Service()",
            "service.instead = lambda _: asked.set() or threading.Event().wait()",
            "client = licensing.LicenceClient(**options_for(service, background=True, timeout_ms=3_600_000))",
            "threading.Thread(target=client.activate, daemon=True).start()",
            "asked.wait()",
            *lines,
        ]
        given = [sys.executable, "-c", "\n".join(program)]
        folders = [Path(licensing.__file__).parents[1], Path(__file__).parent]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder.resolve()) for folder in folders)}
        return subprocess.run(given, env=env, capture_output=True, text=True, timeout=60, check=False)

    def test_a_process_ends_with_its_own_code_while_a_call_waits(self) -> None:
        ended = self.run_program("sys.exit(7)")
        self.assertEqual((ended.returncode, ended.stderr), (7, ""))

    def test_no_thread_is_left_after_close_but_that_of_a_transport_which_waits(self) -> None:
        ended = self.run_program(
            "client.close()",
            "others = lambda: [each for each in threading.enumerate() if each is not threading.main_thread()]",
            "while len(others()) > 1: others()[0].join(0.01)",
            "print([each.daemon for each in others()])",
        )
        self.assertEqual((ended.stdout, ended.stderr, ended.returncode), ("[True]\n", "", 0))


class AsyncioTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.addCleanup(lambda: eventually(lambda: client_threads() == []))

    async def test_coroutines_share_a_call_and_one_can_be_cancelled(self) -> None:
        service, release = Service(), threading.Event()

        def hold(request: licensing.Request) -> licensing.Response:
            release.wait()
            service.instead = None
            return service(request)

        service.instead = hold
        async with licensing.aio.LicenceClient(**options_for(service)) as client:
            heard: list[str] = []
            loop_thread = threading.get_ident()
            client.on_change(lambda state: heard.append(f"{state.status} {threading.get_ident() == loop_thread}"))
            waiting = [asyncio.create_task(client.activate()) for _ in range(10)]
            await asyncio.sleep(0.05)
            waiting[0].cancel()
            release.set()
            states = await asyncio.gather(*waiting, return_exceptions=True)
            self.assertIsInstance(states[0], asyncio.CancelledError)
            self.assertEqual({state.status for state in states[1:]}, {"licensed"})
            self.assertLessEqual(len(service.requests), 3)
            await asyncio.sleep(0)
            self.assertEqual(heard, ["licensed True"])

    async def test_the_loop_goes_on_while_a_call_waits(self) -> None:
        service = Service()
        service.instead = lambda _: time.sleep(0.5)
        async with licensing.aio.LicenceClient(**options_for(service, timeout_ms=200)) as client:
            begun = time.monotonic()
            ticks = 0
            task = asyncio.create_task(client.activate())
            while not task.done():
                ticks += 1
                await asyncio.sleep(0.01)
            self.assertEqual((await task).reason, "timeout")
            self.assertGreater(ticks, 5)
            self.assertLess(time.monotonic() - begun, 2)
