"""AES-256-GCM; loaded late, because it takes 7 MiB and few processes ever open a secret."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


def encrypt(key: bytes, nonce: bytes, text: str, place: bytes) -> bytes:
    """Return the nonce and what the text is with it; a nonce is never taken twice."""
    return nonce + AESGCM(key).encrypt(nonce, text.encode(), place)


def decrypt(key: bytes, sealed: bytes, place: bytes) -> str | None:
    """Return the text; None if it was changed, or sealed with another key or for another place."""
    nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    if len(nonce) < NONCE_BYTES:
        return None
    try:
        return AESGCM(key).decrypt(nonce, rest, place).decode()
    except InvalidTag:
        return None
