"""The words of a state, each listed once. ``sdk/README.md`` explains them."""

from __future__ import annotations

from dataclasses import dataclass

STATUSES = ("starting", "licensed", "grace", "lapsed", "refused", "unlicensed")

FAILURE_REASONS = (
    "unreachable",
    "timeout",
    "unavailable",
    "rate_limited",
    "unexpected_answer",
    "untrusted_signature",
    "untrusted_keys",
    "keys_expired",
    "keys_outdated",
    "unsupported_runtime",
)
"""The service could not be reached, or gave no valid answer. A later try may succeed."""

REFUSAL_REASONS = (
    "suspended",
    "revoked",
    "expired",
    "retired",
    "domain_not_allowed",
    "limit_reached",
    "quota_exceeded",
    "no_place",
    "trial_used",
    "unknown_plan",
    "plan_archived",
    "unknown_licence_key",
    "unknown_legacy_key",
    "activation_freed",
    "token_rejected",
    "invalid_request",
)
"""The service refused. Others may be added over time."""

FILE_REFUSALS = {
    "root_key_required": "offline files need a client with a root_key",
    "file_malformed": "the text is no offline licence file",
    "file_of_another_application": "the file was made for another application",
    "file_of_another_machine": "the file was made for another fingerprint",
    "file_expired": "the file is past its end",
    "file_outdated": "the file is older than the one in use",
    "keys_outdated": "the key that signed the file has been withdrawn",
    "untrusted_keys": "the file is not signed with a root key of this product",
    "untrusted_signature": "the token is not signed by a key of the file",
    "unsupported_runtime": "this runtime does not support Ed25519",
}
"""Why an offline licence file was refused, with details for a log."""

ABSENCE_REASONS = (
    "not_activated",
    "no_licence_key",
    "deactivated",
    "released",
    "fingerprint_changed",
    "licence_key_changed",
    "store_corrupt",
)
"""Why there is no token, before the service was asked."""

PROBLEM_CODES = ("list_expired", "list_outdated", "list_gap", "store_failed", "unexpected_error")
"""The codes of problems that are no reason of a state."""

OPERATIONS = (
    "activate",
    "activate_offline",
    "refresh",
    "check",
    "migrate",
    "start_trial",
    "release",
    "deactivate",
    "call_home",
    "store",
    "internal",
)
"""The origins of problems."""


@dataclass(frozen=True)
class Problem:
    """The problem in the last contact of its kind, for a log or a support page; never needed for a decision."""

    operation: str
    code: str
    detail: str
    at: str
    """ISO 8601, UTC."""
