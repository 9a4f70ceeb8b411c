"""The fetcher of the blobs: content that does not match its pin is never used."""

import base64
import hashlib
import io
import json
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.core.late import load_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_blobs.py"
WASM = b"\0asm\1\0\0\0 and more"
NPM = """#!{python}
import json, pathlib, shutil, sys
said, here = sys.argv[1:], pathlib.Path(__file__).parent
assert said[:4] == ["pack", "--json", "--silent", "--ignore-scripts"], said
rows = []
for package in said[6:]:
    name = package.replace("@", "-") + ".tgz"
    shutil.copy(here / name, pathlib.Path(said[5]) / name)
    rows.append({{"id": package, "filename": name}})
print(json.dumps(rows))
"""


@dataclass(kw_only=True)
class Registry:
    """A fake npm, and the pins of what it has."""

    folder: Path
    pins: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, member: str, content: bytes, *, embedded: bool = False) -> None:
        tarball = io.BytesIO()
        with tarfile.open(fileobj=tarball, mode="w:gz") as archive:
            for path, text in ((member, content), ("LICENSE", b"Copyright somebody")):
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        (self.folder / f"{name}-1.tgz").write_bytes(tarball.getvalue())
        digest = hashlib.sha512(tarball.getvalue()).digest()
        self.pins[f"{name}.wasm"] = {
            "package": f"{name}@1",
            "tarball": f"sha512-{base64.b64encode(digest).decode()}",
            "member": member,
            "embedded": embedded,
            "bytes": len(WASM),
            "sha256": hashlib.sha256(WASM).hexdigest(),
        }

    def fetcher(self) -> ModuleType:
        """Return the script, with these pins."""
        (self.folder / "blobs.json").write_text(json.dumps(self.pins))
        sys.modules.pop("fetch_blobs", None)
        script = load_file(SCRIPT, "fetch_blobs")
        vars(script)["PINS"] = self.folder / "blobs.json"
        return script

    @property
    def npm(self) -> list[str]:
        return [str(self.folder / "npm")]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    folder = tmp_path / "registry"
    folder.mkdir()
    (folder / "npm").write_text(NPM.format(python=sys.executable))
    (folder / "npm").chmod(0o755)
    found = Registry(folder=folder)
    found.add("plain", "dist/plain.wasm", WASM)
    inside = f"const a = '{base64.b64encode(WASM).decode()}';".encode()
    found.add("inside", "a.js", inside, embedded=True)
    return found


def test_blobs_come_out_of_their_packages_with_their_licences(
    registry: Registry, tmp_path: Path
) -> None:
    script, folder = registry.fetcher(), tmp_path / "a" / "blobs"
    assert script.fetch(folder, registry.npm) == ["plain.wasm", "inside.wasm"]
    assert {each.name for each in folder.iterdir()} == {
        *("plain.wasm", "plain.wasm.LICENSE", "inside.wasm", "inside.wasm.LICENSE")
    }
    assert (folder / "inside.wasm").read_bytes() == WASM


def test_an_existing_blob_is_not_fetched(registry: Registry, tmp_path: Path) -> None:
    script = registry.fetcher()
    script.fetch(tmp_path / "blobs", registry.npm)
    assert script.fetch(tmp_path / "blobs", []) == []


def test_a_damaged_blob_is_fetched_again(registry: Registry, tmp_path: Path) -> None:
    script = registry.fetcher()
    script.fetch(tmp_path, registry.npm)
    (tmp_path / "plain.wasm").write_bytes(b"damaged")
    assert script.fetch(tmp_path, registry.npm) == ["plain.wasm"]


@pytest.mark.parametrize(
    ("pin", "value", "expected"),
    [
        ("tarball", "sha512-other", "plain@1: wanted sha512-other, found sha512-"),
        ("sha256", "other", "plain.wasm: wanted SHA-256 other, found "),
        ("embedded", True, "plain@1: wanted wasm as base64 in dist/plain.wasm, found none"),
    ],
)
def test_an_unpinned_blob_is_not_used(
    registry: Registry, tmp_path: Path, pin: str, value: object, expected: str
) -> None:
    registry.pins["plain.wasm"][pin] = value
    with pytest.raises(SystemExit) as refused:
        registry.fetcher().fetch(tmp_path / "blobs", registry.npm)
    assert str(refused.value).startswith(expected)
    assert list((tmp_path / "blobs").iterdir()) == []


def test_without_npm_the_error_explains_the_fix(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        registry.fetcher().fetch(tmp_path, [])
    assert str(refused.value) == (
        "wanted npm, to fetch plain.wasm, inside.wasm; found none. "
        "Install Node.js, or set NPM to its path"
    )


@pytest.mark.parametrize("npm", ["/nowhere/npm", "/bin/false"])
def test_a_failing_npm_is_reported(registry: Registry, tmp_path: Path, npm: str) -> None:
    with pytest.raises(SystemExit, match=r"npm could not download plain@1, inside@1: "):
        registry.fetcher().fetch(tmp_path, [npm])


def test_the_named_npm_is_used(registry: Registry) -> None:
    assert registry.fetcher().npm_command({"NPM": "/my/npm"}) == ["/my/npm"]
