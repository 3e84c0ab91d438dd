"""Times, keys, files and fingerprints."""

from __future__ import annotations

import os
import random
import stat
import tempfile
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

import licensing
from licensing.machine_fingerprint import machine_id
from licensing.service import retry_after_ms
from licensing.shape import parse_json, write_json
from licensing.time import read_timestamp, timestamp

GOOD = "8f3c1c0e6d5b4a2f9e8d7c6b5a493827"


class TimesTest(unittest.TestCase):
    def test_timestamps_are_those_of_datetime(self) -> None:
        start = datetime(1, 1, 1, tzinfo=timezone.utc)
        for _ in range(500):
            moment = start + timedelta(milliseconds=random.randrange(9_998 * 365 * 86_400_000))
            ms = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
            text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self.assertEqual((timestamp(ms), read_timestamp(text)), (text, ms))

    def test_years_with_six_digits_are_read_and_written(self) -> None:
        for ms, text in ((8.64e15, "+275760-09-13T00:00:00.000Z"), (-8.64e15, "-271821-04-20T00:00:00.000Z")):
            self.assertEqual((timestamp(ms), read_timestamp(text)), (text, ms))

    def test_what_is_no_time_is_refused(self) -> None:
        for text in ("", "now", "2026-02-30", "2026-13-01", "2026-11-01T25:00:00Z", "+275761-01-01", 7, None):
            self.assertIsNone(read_timestamp(text))
        self.assertEqual(read_timestamp("2026-11-01T12:00:00+02:00"), read_timestamp("2026-11-01T10:00Z"))

    def test_retry_after_is_seconds_or_a_date_in_each_form(self) -> None:
        sent = "Sat, 01 Feb 2020 10:00:00 GMT"
        for text in (
            "600",
            "Sat, 01 Feb 2020 10:10:00 GMT",
            "Saturday, 01-Feb-20 10:10:00 GMT",
            "Sat Feb  1 10:10:00 2020",
        ):
            self.assertEqual(retry_after_ms({"retry-after": text, "date": sent}), 600_000)
        for text in ("", "-1", "soon", "Sat, 31 Jun 2020 10:00:00 GMT", "١٢"):
            self.assertIsNone(retry_after_ms({"retry-after": text, "date": sent}))


class TextsTest(unittest.TestCase):
    def test_json_is_written_as_in_every_language(self) -> None:
        value = parse_json('{"a": 1.0, "b": "é\\u00e9\\ud800\\u0007/<", "c": [1e2, -0.0, 0.5]}')
        self.assertEqual(write_json(value), '{"a":1,"b":"éé\\ud800\\u0007/<","c":[100,0,0.5]}')

    def test_json_that_is_none_raises_value_error(self) -> None:
        for text in ("", "NaN", "[" * 100_000, "1" * 5_000 + "x", '{"a":Infinity}'):
            self.assertRaises(ValueError, parse_json, text)

    def test_a_long_text_that_somebody_pasted_is_read_as_a_licence_file_at_once(self) -> None:
        client = licensing.LicenceClient(
            base_url="http://127.0.0.1:9",
            app_id="app_1",
            root_key="lrk_" + "A" * 43,
            fingerprint="machine-1",
            host="localhost",
            product_version="1",
            background=False,
        )
        begin, started = "-BEGIN LICENCE-", time.monotonic()
        for middle in ("-", " ", "> ", "\u2014", "a", "a.", "-\n", begin, "-END LICENCE", "-BEGIN "):
            for end in ("", "-END LICENCE-", "="):
                text = begin + middle * (300_000 // len(middle)) + end
                self.assertEqual(client.activate_offline(text).reason, "file_malformed")
        self.assertLess(time.monotonic() - started, 15)


class FilesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_store_returns_its_last_text_and_only_its_owner_reads_it(self) -> None:
        path = self.folder / "acme" / "licence.json"
        store = licensing.file_store(path)
        self.assertIsNone(store.read())
        store.write("one")
        store.write("two")
        self.assertEqual(licensing.file_store(path).read(), "two")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

    def test_a_store_keeps_the_symbolic_link_to_its_file(self) -> None:
        (self.folder / "data").mkdir()
        (self.folder / "link").symlink_to("data/licence.json")
        licensing.file_store(self.folder / "link").write("one")
        self.assertEqual((self.folder / "data" / "licence.json").read_text(), "one")
        self.assertTrue((self.folder / "link").is_symlink())

    def test_threads_lose_nothing_that_they_add_to_a_store(self) -> None:
        path = self.folder / "licence.json"

        def add(name: int) -> None:
            for line in range(10):
                licensing.file_store(path).update(lambda text, line=line: f"{text or ''}{name}-{line}\n")

        threads = [threading.Thread(target=add, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = path.read_text().split()
        self.assertEqual(sorted(lines), sorted(f"{name}-{line}" for name in range(4) for line in range(10)))
        self.assertEqual(os.listdir(self.folder), ["licence.json"])

    def test_a_process_that_was_killed_while_it_wrote_blocks_no_other(self) -> None:
        path = self.folder / "licence.json"
        store = licensing.file_store(path)
        store.write("one")
        digest = "7692c3ad3540bb803c020b3aee66cd88"
        (self.folder / f"licence.json.after-{digest}").write_text("theirs")
        store.update(lambda text: f"{text} and mine")
        self.assertEqual(store.read(), "theirs and mine")
        self.assertEqual(os.listdir(self.folder), ["licence.json"])

    def test_an_id_that_cannot_be_kept_raises(self) -> None:
        (self.folder / "plain").write_text("")
        with self.assertRaises(OSError):
            licensing.machine_fingerprint(app_id="app_1", file=self.folder / "plain" / "id")

    def test_the_id_of_a_machine_is_that_of_its_system_unless_many_share_it(self) -> None:
        def read(platform: str, files: dict[str, str], printed: str = "") -> str | None:
            return machine_id(platform, lambda path: files.get(path, ""), lambda _: printed)

        self.assertEqual(read("linux", {"/etc/machine-id": f"{GOOD}\n"}), GOOD)
        for shared in ("uninitialized\n", "", "0" * 32, "FFFFFFFF-FFFF", "To be filled by O.E.M.", "Default string"):
            both = {"/etc/machine-id": shared, "/var/lib/dbus/machine-id": GOOD}
            self.assertEqual(read("linux", both), GOOD)
            self.assertIsNone(read("linux", {"/etc/machine-id": shared}))
        guid = "B7A1D5E2-3C4F-4E5A-9B8C-1D2E3F4A5B6C"
        self.assertEqual(read("darwin", {}, f'    "IOPlatformUUID" = "{guid}"'), guid)
        self.assertEqual(read("win32", {}, f"    MachineGuid    REG_SZ    {guid}\r\n\r\n"), guid)
