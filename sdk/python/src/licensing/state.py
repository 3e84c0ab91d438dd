"""The state of a licence, as the product sees it."""

from __future__ import annotations

from dataclasses import dataclass

from .attempts import Attempts
from .held import Held, revocations_of, token_of
from .reasons import Problem
from .time import Ms, timestamp


@dataclass(frozen=True)
class LicenceState:
    """Everything that a product may need to know about its licence. It does not change."""

    status: str
    """``starting``, ``licensed``, ``grace``, ``lapsed``, ``refused`` or ``unlicensed``."""
    usable: bool
    """Whether features and limits are granted now: ``status`` is ``licensed`` or ``grace``."""
    reason: str | None
    """None when ``licensed`` or ``starting``."""
    licence_id: str | None
    activation_id: str | None
    plan_id: str | None
    licence_status: str | None
    """The status of the licence when the service signed the token: ``active`` or ``downgraded``."""
    seats: Ms | None
    """The number of seats the product should enforce; None for no such limit."""
    updates_until: str | None
    """The product may be updated to releases until this time, ISO 8601 UTC; None: to all. See ``covers``."""
    expires_at: str | None
    """The token's end, ISO 8601 UTC; None without a token."""
    refresh_after: str | None
    """Half of the token's life, when renewal begins; for an offline token its end. ISO 8601 UTC."""
    offline: bool
    """Whether the token came in a file, by ``activate_offline``."""
    revocations: str
    """The list was checked within two check intervals (``current``), longer ago (``stale``), or there is no list (``unknown``)."""
    clock_turned_back: bool
    """The local clock was turned back, and no token has been issued since. The trusted time continues from its last value."""
    problem: Problem | None
    """The most recent problem, unless a later success has ended it."""


def status_of(held: Held, attempts: Attempts) -> tuple[str, str | None]:
    """The status and its reason, by the table of states: the first line that applies decides."""
    if not attempts.is_store_read:
        return "starting", None
    refusal, failure, token = held.licence.refusal, attempts.failure, token_of(held)
    time = held.time.time
    if revocations_of(held).named_by is not None or refusal == "revoked":
        return "refused", "revoked"
    if token is None:
        return ("refused", refusal) if refusal else ("unlicensed", failure or attempts.absence)
    if time >= token.claims.expires_at:
        return ("refused", refusal) if refusal else ("lapsed", failure or "token_expired")
    if refusal:
        return "grace", refusal
    if failure and time >= token.claims.refresh_after:
        return "grace", failure
    return "licensed", None


def state_of(held: Held, attempts: Attempts) -> LicenceState:
    """The state at the time that was last observed."""
    status, reason = status_of(held, attempts)
    token = token_of(held)
    claims = token.claims if token else None
    return LicenceState(
        status=status,
        usable=status in ("licensed", "grace"),
        reason=reason,
        licence_id=claims.licence_id if claims else None,
        activation_id=claims.activation_id if claims else None,
        plan_id=claims.plan_id if claims else None,
        licence_status=claims.licence_status if claims else None,
        seats=claims.seats if claims else None,
        updates_until=_text_of(claims.updates_until if claims else None),
        expires_at=_text_of(claims.expires_at if claims else None),
        refresh_after=_text_of(claims.refresh_after if claims else None),
        offline=claims is not None and claims.offline,
        revocations=_freshness_of(held),
        clock_turned_back=held.time.turned_back,
        problem=attempts.problem,
    )


def _freshness_of(held: Held) -> str:
    known, token = revocations_of(held).list, token_of(held)
    if known is None or token is None:
        return "unknown"
    time = held.time.time
    is_checked = known.checked_at is not None and time - known.checked_at <= 2 * token.claims.check_interval_ms
    return "current" if is_checked and not known.more and time < known.expires_at else "stale"


def _text_of(time: Ms | None) -> str | None:
    return None if time is None else timestamp(time)
