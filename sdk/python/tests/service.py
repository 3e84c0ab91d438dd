"""A service in memory: a transport that signs tokens for one application."""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import Any, Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import licensing

APP_ID = "app_01kahz5k00e000000000000001"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Key:
    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.x = _encoded(self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, kid: str, payload: dict[str, Any]) -> str:
        parts = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "kid": kid}, payload))
        return f"{parts}.{_encoded(self._private.sign(parts.encode()))}"


class Service:
    """Grants tokens to everyone, unless ``instead`` answers."""

    def __init__(self) -> None:
        self._root, self._signing = Key(), Key()
        self.root_key = f"lrk_{self._root.x}"
        self.token_life_s = 86_400
        self.requests: list[str] = []
        self.instead: Callable[[licensing.Request], licensing.Response] | None = None
        self._lock = threading.Lock()

    def __call__(self, request: licensing.Request) -> licensing.Response:
        path = request.url.partition("/v1")[2]
        with self._lock:
            self.requests.append(f"{request.method} {path}")
        if self.instead:
            return self.instead(request)
        body = json.loads(request.body or b"{}")
        if path.endswith("/jwks.json"):
            return self._answer(self._keys())
        if path.partition("?")[0].endswith("/revocations"):
            return self._answer({"signature": self._sign({"app_id": APP_ID, "version": 1, "revoked": []})})
        if request.method == "DELETE":
            return licensing.Response(204)
        claims = {"sub": "lic_1", "aud": APP_ID, "act": "act_1", "chk": 900, "nonce": body.get("nonce")}
        token = self._sign({**claims, "entitlements": {"export_pdf": "true", "max_projects": "25"}})
        return self._answer({"activation_id": "act_1", "licence_id": "lic_1", "token": token})

    def _answer(self, body: dict[str, Any]) -> licensing.Response:
        return licensing.Response(200, {}, json.dumps(body).encode())

    def _keys(self) -> dict[str, Any]:
        keys = [{"kid": "key-1", "x": self._signing.x}]
        iat = int(time.time())
        signed = self._root.sign(self.root_key, {"app_id": APP_ID, "keys": keys, "iat": iat, "exp": iat + 30 * 86_400})
        return {"keys": keys, "signed": [signed]}

    def _sign(self, payload: dict[str, Any]) -> str:
        iat = int(time.time())
        return self._signing.sign("key-1", {**payload, "iat": iat, "exp": iat + self.token_life_s})


def options_for(service: Service, **changes: Any) -> dict[str, Any]:
    options = {
        "base_url": "https://licensing.example.com",
        "app_id": APP_ID,
        "root_key": service.root_key,
        "licence_key": "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF",
        "fingerprint": "machine-1",
        "host": "build-7.example.com",
        "product_version": "4.2.0",
        "transport": service,
        "background": False,
    }
    return {**options, **changes}
