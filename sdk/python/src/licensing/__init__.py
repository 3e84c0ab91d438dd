"""Licences of installed products, and webhook verification for the backends of vendors.

``LicenceClient`` is the licence of one installation; ``licensing.aio`` has the same client for asyncio.
"""

from .client import LicenceClient
from .file_store import file_store
from .machine_fingerprint import machine_fingerprint
from .reasons import Problem
from .service import Request, Response, Signal, Transport, http_transport
from .state import LicenceState
from .store import SharedStore, Store, memory_store
from .webhooks import WebhookVerificationError, verify_webhook

__all__ = [
    "LicenceClient",
    "LicenceState",
    "Problem",
    "Request",
    "Response",
    "SharedStore",
    "Signal",
    "Store",
    "Transport",
    "WebhookVerificationError",
    "file_store",
    "http_transport",
    "machine_fingerprint",
    "memory_store",
    "verify_webhook",
]
