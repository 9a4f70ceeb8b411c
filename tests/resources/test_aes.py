"""AES-256-GCM: only the same key and the same place open what was sealed."""

import pytest

from penstock.resources.aes import NONCE_BYTES, decrypt, encrypt

KEY, NONCE, PLACE = bytes(range(32)), bytes(NONCE_BYTES), b"profile/p1/token"
SEALED = encrypt(KEY, NONCE, "s3cret \u00fc", PLACE)


def test_a_sealed_text_is_opened() -> None:
    assert decrypt(KEY, SEALED, PLACE) == "s3cret \u00fc"
    assert b"s3cret" not in SEALED


def test_the_stored_form_stays() -> None:
    """The first test case of a 256-bit key without text in the paper on GCM: its tag alone."""
    assert encrypt(bytes(32), NONCE, "", b"") == NONCE + bytes.fromhex(
        "530f8afbc74536b9a963b4f1c4cb738b"
    )


OTHERS = {
    "another key": (bytes(32), SEALED, PLACE),
    "another place": (KEY, SEALED, b"shared/token"),
    "one bit of the nonce": (KEY, b"\x01" + SEALED[1:], PLACE),
    "one bit of the text": (KEY, SEALED[:12] + bytes([SEALED[12] ^ 1]) + SEALED[13:], PLACE),
    "one bit of the tag": (KEY, SEALED[:-1] + bytes([SEALED[-1] ^ 1]), PLACE),
    "the end cut off": (KEY, SEALED[:-1], PLACE),
    "the nonce alone": (KEY, NONCE, PLACE),
    "half a nonce": (KEY, NONCE[:6], PLACE),
    "nothing": (KEY, b"", PLACE),
}


@pytest.mark.parametrize(("key", "sealed", "place"), OTHERS.values(), ids=OTHERS)
def test_another_key_place_or_text_opens_nothing(key: bytes, sealed: bytes, place: bytes) -> None:
    assert decrypt(key, sealed, place) is None
