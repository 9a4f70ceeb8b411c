"""Secrets at rest."""

import base64
import errno
import os
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError, StoreError, StoreFull, StoreReadOnly
from penstock.core.scopes import Scope, ScopeKind
from penstock.resources.cipher import Cipher, Sealed, decode_keys, open_cipher

ANN = Scope(ScopeKind.PROFILE, "ann")
OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def spelled(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def test_a_secret_is_sealed_with_a_new_nonce_and_opens() -> None:
    """V8: "AES-256-GCM, random 12-byte nonce, key id stored"."""
    cipher = Cipher([NEW])
    one, two = cipher.seal("s3säme", ANN, "k"), cipher.seal("s3säme", ANN, "k")
    assert one.sealed[:12] != two.sealed[:12]
    assert one.key_id == two.key_id
    assert b"s3s" not in one.sealed
    assert cipher.open(one, ANN, "k") == "s3säme"


MOVED = [
    (Scope(ScopeKind.PROFILE, "bob"), "k"),
    (Scope(ScopeKind.SHARED, "ann"), "k"),
    (Scope(ScopeKind.PROFILE, "annk"), ""),
    (ANN, "j"),
]


@pytest.mark.parametrize(("scope", "key"), MOVED)
def test_a_row_that_is_moved_does_not_decrypt(scope: Scope, key: str) -> None:
    cipher = Cipher([NEW])
    assert cipher.open(cipher.seal("s3same", ANN, "k"), scope, key) is None


def test_a_damaged_secret_does_not_decrypt() -> None:
    cipher = Cipher([NEW])
    sealed = cipher.seal("s3same", ANN, "k")
    for damaged in (b"", sealed.sealed[:11], sealed.sealed[:-1], sealed.sealed[:-1] + b"\x00"):
        if damaged != sealed.sealed:
            assert cipher.open(Sealed(sealed.key_id, damaged), ANN, "k") is None


def test_the_first_key_writes_and_all_read() -> None:
    """V9: "several with commas: the first writes, all read"."""
    old = Cipher([OLD]).seal("s3same", ANN, "k")
    both = open_cipher(f"{spelled(NEW)}, {spelled(OLD).rstrip('=')}", Path())
    assert both.open(old, ANN, "k") == "s3same"
    assert Cipher([NEW]).open(both.seal("s3same", ANN, "k"), ANN, "k") == "s3same"
    assert Cipher([NEW]).open(old, ANN, "k") is None


@pytest.mark.parametrize("bad", ["x", "", spelled(OLD)[:-4], "é" * 32, spelled(OLD + b"x")])
def test_an_invalid_key_is_named_only_by_its_number(bad: str) -> None:
    with pytest.raises(ConfigError, match="key 2 of 2 is invalid") as refused:
        decode_keys(f"{spelled(OLD)},{bad}")
    assert spelled(OLD) not in str(refused.value)


def test_without_a_setting_a_key_file_is_made_on_first_use(tmp_path: Path) -> None:
    """V9: "a key file made on first use in the data directory, mode 0600"."""
    folder = tmp_path / "data"
    cipher = open_cipher("", folder)
    assert not folder.exists()
    sealed = cipher.seal("s3same", ANN, "k")
    assert open_cipher(" ", folder).open(sealed, ANN, "k") == "s3same"
    assert [each.name for each in folder.iterdir()] == ["secret.key"]
    assert (folder / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_key_file_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    """V9: "a file others can read stops the start"."""
    open_cipher("", tmp_path).seal("s3same", ANN, "k")
    (tmp_path / "secret.key").chmod(0o640)
    with pytest.raises(ConfigError, match=r"others may read it: found mode 640\..*chmod 600"):
        open_cipher("", tmp_path)


def test_a_key_file_that_holds_none_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    file.touch(mode=0o600)
    with pytest.raises(ConfigError, match="does not hold a key of 32 bytes"):
        open_cipher("", tmp_path)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cipher = open_cipher("", tmp_path / "file" / "below")
    with pytest.raises(StoreReadOnly, match=r"secret\.key cannot be made: Not a directory"):
        cipher.seal("s3same", ANN, "k")


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, StoreFull), (errno.EDQUOT, StoreFull), (errno.EROFS, StoreReadOnly)],
)
def test_a_key_that_cannot_be_written_is_not_an_error_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError]
) -> None:
    """Over HTTP it was a 422 of the request; later, with space, the key is made."""

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    cipher = open_cipher("", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(kind, match=os.strerror(number)):
            cipher.seal("s3same", ANN, "k")
    assert list(tmp_path.iterdir()) == []
    assert cipher.open(cipher.seal("s3same", ANN, "k"), ANN, "k") == "s3same"
