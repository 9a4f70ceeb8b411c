"""Encryption of secrets at rest: AES-256-GCM, bound to scope and key, with rotating keys.

The first key encrypts, every key decrypts, so a new key can be put in front and the old one removed
after `Vault.rotate`. Scope and key are authenticated with the ciphertext: a row that is copied to
another place does not open there. Proof: tests/resources/test_cipher.py.
"""

import base64
import binascii
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from penstock.core.errors import ConfigError
from penstock.core.exhaustion import disk_failure
from penstock.core.ids import new_secret
from penstock.core.late import late
from penstock.core.scopes import Scope

KEY_BYTES = 32
KEY_FILE = "secret.key"
_NONCE_BYTES = 12
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
Chance = Callable[[], bytes]
Encrypt = Callable[[bytes, bytes, str, bytes], bytes]
Decrypt = Callable[[bytes, bytes, bytes], str | None]


class Sealed(Struct, frozen=True):
    """An encrypted secret, and which key opens it."""

    key_id: str
    sealed: bytes
    """Nonce and ciphertext."""


class Cipher:
    """Encrypts with the first key, decrypts with any."""

    def __init__(
        self,
        keys: Sequence[bytes],
        chance: Chance = new_secret,
        *,
        make: Callable[[], bytes] | None = None,
    ) -> None:
        self._keys = list(keys)
        self._make = make
        """Creates the first key when it is needed."""
        self._chance = chance

    def seal(self, text: str, scope: Scope, key: str) -> Sealed:
        """Encrypt a secret for its scope and key."""
        nonce, own = self._chance()[:_NONCE_BYTES], self._known()[0]
        encrypt: Encrypt = late("penstock.resources.aes:encrypt")
        return Sealed(_name(own), encrypt(own, nonce, text, _place(scope, key)))

    def open(self, sealed: Sealed, scope: Scope, key: str) -> str | None:
        """Return the secret, or None if its key is missing or it belongs to another place."""
        own = next((each for each in self._known() if _name(each) == sealed.key_id), None)
        if own is None:
            return None
        decrypt: Decrypt = late("penstock.resources.aes:decrypt")
        return decrypt(own, sealed.sealed, _place(scope, key))

    def _known(self) -> list[bytes]:
        if not self._keys and self._make is not None:
            self._keys.append(self._make())
        return self._keys


def open_cipher(setting: str, folder: Path, chance: Chance = new_secret) -> Cipher:
    """Return the cipher with the keys of a setting, or of a file that is made on first use.

    Raises ConfigError for keys that cannot be used, also for a file that others can read.
    """
    if setting.strip():
        return Cipher(decode_keys(setting), chance)
    path = folder / KEY_FILE
    if path.exists():
        return Cipher([_key_of(path, chance)], chance)
    return Cipher([], chance, make=lambda: _key_of(path, chance))


def decode_keys(setting: str) -> list[bytes]:
    """Return the keys of a setting; the first one encrypts. Raises ConfigError."""
    keys = [_decoded(each.strip()) for each in setting.split(",")]
    if wrong := [number for number, key in enumerate(keys, 1) if key is None]:
        raise ConfigError(
            "PENSTOCK_SECRET_KEY holds keys of 32 bytes as base64url, with commas between; "
            f"key {wrong[0]} of {len(keys)} is invalid"
        )
    return [key for key in keys if key is not None]


def _key_of(path: Path, chance: Chance) -> bytes:
    if not path.exists():
        _make(path, chance())
    status = path.stat()
    if status.st_mode & _OTHERS and os.name != "nt":
        raise ConfigError(
            f"{path} holds the key of all secrets, and others may read it: found mode "
            f"{stat.S_IMODE(status.st_mode):o}. "
            f"If they read it, create a new key. Then: chmod 600 {path}"
        )
    key = _decoded(path.read_text().strip())
    if key is None:
        raise ConfigError(
            f"{path} does not hold a key of 32 bytes as base64url; restore it from a copy, "
            "or remove it and set all secrets again"
        )
    return key


def _make(path: Path, key: bytes) -> None:
    """Write the key file; if two processes do so at once, the first one wins."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.urlsafe_b64encode(key) + b"\n")
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(part, path)
        except FileExistsError:
            return
        finally:
            part.unlink()
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise disk_failure(error, f"{path} cannot be made") from error


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return key if len(key) == KEY_BYTES else None


def _name(key: bytes) -> str:
    return blake2b(key, digest_size=8, person=b"penstock-key").hexdigest()


def _place(scope: Scope, key: str) -> bytes:
    parts = (scope.kind.value.encode(), scope.id.encode(), key.encode())
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
