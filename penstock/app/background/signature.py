"""Signatures of webhook deliveries: how a delivery is signed, and how its receiver checks it."""

import hmac
import re
from collections.abc import Callable
from hashlib import sha256

from penstock.core.clock import SystemClock
from penstock.core.scopes import Scope, ScopeKind

HEADER = "x-penstock-signature"
"""The header that holds the signature."""
SECRETS = Scope(ScopeKind.SHARED, "webhooks")
"""The scope in the vault that holds the secrets of webhooks."""
MAX_AGE_SECONDS = 300
"""How old a delivery may be: an older one may be a copy that somebody sends again."""
_FORM = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def sign(body: bytes, secret: str, at: int) -> str:
    """Return the value of the header for a body that is sent at this Unix time in seconds."""
    return f"t={at},v1={_digest(body, secret, at)}"


def verify_webhook(
    body: bytes,
    header: str | None,
    secret: str,
    *,
    now: Callable[[], float] = lambda: SystemClock().now() / 1000,
) -> bool:
    """Whether a request to your server comes from penstock, and came just now.

    Call it with the bytes of the body as they arrived, before anything parses them.

    Args:
        body: The body of the request.
        header: Its header `x-penstock-signature`; None if it has none.
        secret: The secret that the webhook was given.
        now: Returns the Unix time in seconds; for tests.

    Returns:
        False for a wrong or missing signature, and for one older than 5 minutes. The comparison
        takes the same time for every wrong signature.

    Example:
        >>> from penstock import verify_webhook
        >>> verify_webhook(b"{}", "t=1795251600,v1=" + 64 * "0", "a secret")
        False
    """
    if (parts := _FORM.fullmatch(header or "")) is None:
        return False
    at = int(parts[1])
    is_right = hmac.compare_digest(_digest(body, secret, at), parts[2])
    return is_right and abs(now() - at) <= MAX_AGE_SECONDS


def _digest(body: bytes, secret: str, at: int) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
