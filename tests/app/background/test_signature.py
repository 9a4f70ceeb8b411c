"""Signatures of deliveries: what a receiver accepts."""

import pytest

from penstock.app.background.signature import MAX_AGE_SECONDS, sign, verify_webhook

AT = 1_795_251_600
BODY, SECRET = b'{"id":"evt_1"}', "a secret"
GOOD = sign(BODY, SECRET, AT)


def test_the_signature_has_the_form_that_the_page_shows() -> None:
    """Spec: "x-penstock-signature: t=1795251600,v1=<hex HMAC-SHA256 of "t.body">"."""
    assert GOOD == (
        "t=1795251600,v1=5b6dd5b43423cd335c87305699fa2c7e4a246edb17ca5b942aa10b0016bf1017"
    )


@pytest.mark.parametrize(
    ("body", "header", "secret", "now", "is_accepted"),
    [
        (BODY, GOOD, SECRET, AT, True),
        (BODY, GOOD, SECRET, AT + MAX_AGE_SECONDS, True),
        (BODY, GOOD, SECRET, AT - MAX_AGE_SECONDS, True),
        (BODY, GOOD, SECRET, AT + MAX_AGE_SECONDS + 1, False),
        (BODY, GOOD, SECRET, AT - MAX_AGE_SECONDS - 1, False),
        (BODY + b" ", GOOD, SECRET, AT, False),
        (BODY, GOOD, "another", AT, False),
        (BODY, GOOD.replace("t=1", "t=2"), SECRET, AT + 10**9, False),
        (BODY, GOOD.upper(), SECRET, AT, False),
        (BODY, GOOD + ",v1=00", SECRET, AT, False),
        (BODY, "", SECRET, AT, False),
        (BODY, None, SECRET, AT, False),
        (BODY, "t=\u0661,v1=" + "0" * 64, SECRET, AT, False),
    ],
)
def test_a_receiver_accepts_what_was_signed_just_now(
    body: bytes, header: str | None, secret: str, now: float, *, is_accepted: bool
) -> None:
    """Spec: "reject `t` older than 5 min"."""
    assert verify_webhook(body, header, secret, now=lambda: now) is is_accepted
