"""Runs the programs of the README."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import io
import re
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from service import Service, options_for

PROGRAMS = re.findall(
    r"^```python\n(.*?)^```$", (Path(__file__).parents[1] / "README.md").read_text("utf-8"), re.S | re.M
)


def run(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(program, "README.md", "exec"), names)
    return names


class ReadmeTest(unittest.TestCase):
    def test_the_product_is_licensed_and_works_without_a_network_at_its_next_start(self) -> None:
        service = Service()
        program = re.sub("lrk_[A-Za-z0-9_-]{43}", service.root_key, PROGRAMS[0])
        with tempfile.TemporaryDirectory() as folder, patch("licensing.client.http_transport", service):
            program = program.replace("/var/lib/acme", folder)
            for _ in range(2):
                names = run(program)
                self.assertTrue(names["state"].usable)
                self.assertEqual((names["can_export"], names["max_projects"]), (True, 25))
        self.assertEqual(service.requests.count("POST /activations"), 1)

    def test_the_program_with_asyncio_is_licensed(self) -> None:
        start = run(PROGRAMS[1])["start"]
        self.assertTrue(asyncio.run(start(options_for(Service()))))

    def test_the_receiver_accepts_only_signed_events(self) -> None:
        receive = run(PROGRAMS[2])["receive"]
        body = b'{"id":"evt_1","type":"licence.revoked","data":{"object":{"licence_id":"lic_1"}}}'
        now = int(time.time())
        signature = hmac.new(b"whsec_1", f"{now}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {"Webhook-Signature": f"t={now},v1={signature}"}
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(receive(body, headers, "whsec_1"), 204)
            self.assertEqual(receive(body, headers, "whsec_2"), 400)
        self.assertEqual(output.getvalue().split("\n")[1], "refused: signature_mismatch")
        self.assertEqual(len(PROGRAMS), 3)
