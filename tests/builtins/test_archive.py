"""Zip archives: they round-trip, and unsafe ones are refused."""

import asyncio
import stat
import struct
import zipfile
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO

import pytest
from msgspec.structs import replace

from penstock.builtins.archive import TOOLS
from penstock.core.limits import Limits
from penstock.core.scopes import parse_path
from tests.kit.workbench import Desk, open_desk

FILES = {"session://d/a.txt": b"a" * 1000, "session://d/e/b": b"\xff\x00", "task://c.txt": b"c"}


async def furnished(**more: object) -> Desk:
    desk = await open_desk(*TOOLS, **more)
    for uri, content in FILES.items():
        await desk.put(uri, content)
    return desk


async def test_an_archive_round_trips() -> None:
    desk = await furnished()
    inputs = ["session://d", "task://c.txt"]
    output = await desk.made("zip", input_paths=inputs, output_path="task://x.zip")
    packed = await desk.get("task://x.zip")
    assert output == {
        "input_paths": inputs,
        "output_path": "task://x.zip",
        "entry_count": 3,
        "size_bytes": len(packed),
    }
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        assert archive.namelist() == ["d/a.txt", "d/e/b", "c.txt"]
        assert archive.getinfo("d/a.txt").compress_size < 100
    output = await desk.made("unzip", input_path="task://x.zip", output_dir="task://out")
    written = ["task://out/d/a.txt", "task://out/d/e/b", "task://out/c.txt"]
    assert output == {
        "input_path": "task://x.zip",
        "output_dir": "task://out",
        "entry_count": 3,
        "written_paths": written,
    }
    assert [await desk.get(each) for each in written] == list(FILES.values())


async def test_a_whole_tree_is_packed_and_unpacked_at_the_root() -> None:
    desk = await furnished()
    await desk.made("zip", input_paths=["session://"], output_path="task://x.zip")
    output = await desk.made("unzip", input_path="task://x.zip", output_dir="task://")
    assert output["written_paths"] == ["task://d/a.txt", "task://d/e/b"]


async def test_the_same_files_make_the_same_archive() -> None:
    desk = await furnished()
    for name in ("1", "2"):
        await desk.made("zip", input_paths=["session://d"], output_path=f"task://{name}")
    assert await desk.get("task://1") == await desk.get("task://2")


NOT_PACKED = [
    (["task://none"], "task://x", "not_found"),
    (["session://d"], "task://c.txt", "exists"),
    (["session://d"], "task://c.txt/x", "not_a_directory"),
    (["session://d"], "session://d", "is_directory"),
    (["session://d", "session://d/e", "session://d"], "task://x", "exists"),
    ([], "task://x", "invalid"),
    (["d"], "task://x", "invalid"),
    (["session://d"], "x", "invalid"),
]


@pytest.mark.parametrize(("inputs", "target", "why"), NOT_PACKED)
async def test_a_refused_input_is_not_packed(inputs: list[str], target: str, why: str) -> None:
    desk = await furnished()
    assert await desk.refusal("zip", input_paths=inputs, output_path=target) == why
    assert await desk.get("task://c.txt") == b"c"


@pytest.mark.parametrize(("number", "size"), [(10_001, 0), (5, 64 * 2**20)])
async def test_too_much_is_not_packed(number: int, size: int) -> None:
    desk = await furnished()
    kept = desk.bench.log.changes.contents(desk.files.scope(parse_path("task://"))).files
    kept |= {f"many/{each}": replace(kept["c.txt"], size=size) for each in range(number)}
    inputs = {"input_paths": ["task://many"], "output_path": "task://x"}
    assert await desk.refusal("zip", **inputs) == "too_large"


async def test_an_archive_that_would_be_too_large_is_not_made() -> None:
    desk = await furnished(limits=Limits(file_bytes=1000))
    await desk.put("task://noise", b"".join(sha256(bytes([each])).digest() for each in range(31)))
    inputs = {"input_paths": ["task://noise"], "output_path": "task://x"}
    assert await desk.refusal("zip", **inputs) == "too_large"


# ---- hostile archives ----------------------------------------------------------------------------

Fill = Callable[[zipfile.ZipFile], None]


def packed(fill: Fill) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        fill(archive)
    return content.getvalue()


def of_names(*names: str) -> bytes:
    def fill(archive: zipfile.ZipFile) -> None:
        for name in names:
            archive.writestr(name, "content")

    return packed(fill)


def named(*names: str) -> bytes:
    """Return an archive with names that no packer would write."""

    def fill(archive: zipfile.ZipFile) -> None:
        for number, name in enumerate(names):
            archive.writestr(f"\x01{number}" + "\x01" * (len(name.encode()) - 2), "content")

    content = packed(fill)
    for number, name in enumerate(names):
        placeholder = f"\x01{number}" + "\x01" * (len(name.encode()) - 2)
        content = content.replace(placeholder.encode(), name.encode())
    return content


def special(kind: int) -> bytes:
    info = zipfile.ZipInfo("link")
    info.create_system = 3
    info.external_attr = (kind | 0o777) << 16
    return packed(lambda archive: archive.writestr(info, "/etc/passwd"))


def changed(content: bytes, mark: bytes, offset: int, field: bytes) -> bytes:
    """Write a field into each header that begins with a mark."""
    made, at = bytearray(content), content.find(mark)
    while at >= 0:
        made[at + offset : at + offset + len(field)] = field
        at = content.find(mark, at + 1)
    return bytes(made)


def bomb() -> bytes:
    return packed(lambda archive: archive.writestr("zeros", bytes(10_000_000)))


def lying_bomb() -> bytes:
    """Say that ten million zeros are a thousand."""
    content = changed(bomb(), b"PK\3\4", 22, struct.pack("<I", 1000))
    return changed(content, b"PK\1\2", 24, struct.pack("<I", 1000))


def overlapping() -> bytes:
    """Let a thousand entries be the same bytes."""
    content = packed(lambda archive: archive.writestr("f0000", bytes(100_000)))
    start = content.find(b"PK\1\2")
    end = content.find(b"PK\5\6")
    header = content[start:end]
    headers = b"".join(header.replace(b"f0000", b"f%04d" % each) for each in range(1000))
    sizes = struct.pack("<HHII", 1000, 1000, len(headers), start)
    return content[:start] + headers + b"PK\5\6\0\0\0\0" + sizes + b"\0\0"


GOOD = named("good.txt")
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "up": (lambda: named("good.txt", "../up.txt"), "unsafe_archive"),
    "up inside": (lambda: named("a/../../up.txt"), "unsafe_archive"),
    "absolute": (lambda: named("/etc/passwd"), "unsafe_archive"),
    "drive": (lambda: named("C:/windows.txt"), "unsafe_archive"),
    "drive alone": (lambda: named("C:windows.txt"), "unsafe_archive"),
    "backslash": (lambda: named("..\\up.txt"), "unsafe_archive"),
    "share": (lambda: named("\\\\host\\x"), "unsafe_archive"),
    "empty segment": (lambda: named("a//b.txt"), "unsafe_archive"),
    "dot": (lambda: named("./b.txt"), "unsafe_archive"),
    "nul": (lambda: named("a.txt\0.exe"), "unsafe_archive"),
    "newline": (lambda: named("a\nb.txt"), "unsafe_archive"),
    "long": (lambda: named("x" * 600), "unsafe_archive"),
    "deep": (lambda: named("a/" * 40 + "b"), "unsafe_archive"),
    "twice": (lambda: named("same.txt", "same.txt"), "unsafe_archive"),
    "twice in NFC": (lambda: of_names("e\u0301.txt", "\u00e9.txt"), "unsafe_archive"),
    "file and directory": (lambda: named("same", "same/b.txt"), "not_a_directory"),
    "link": (lambda: special(stat.S_IFLNK), "unsafe_archive"),
    "pipe": (lambda: special(stat.S_IFIFO), "unsafe_archive"),
    "device": (lambda: special(stat.S_IFCHR), "unsafe_archive"),
    "encrypted": (lambda: changed(GOOD, b"PK\1\2", 8, b"\1\0"), "unsafe_archive"),
    "method": (lambda: changed(GOOD, b"PK\1\2", 10, b"\x0c\0"), "bad_format"),
    "bomb": (bomb, "unsafe_archive"),
    "lying bomb": (lying_bomb, "bad_format"),
    "overlapping": (overlapping, "unsafe_archive"),
    "wrong sum": (lambda: GOOD.replace(b"\x4b\xce\xcf\x2b", b"\x4b\xce\xcf\x2c", 1), "bad_format"),
    "cut": (lambda: GOOD[:-30], "bad_format"),
    "text": (lambda: b"no zip", "bad_format"),
    "nothing": (lambda: b"", "bad_format"),
    "many marks": (lambda: GOOD + b"PK\1\2" * 200_000, "unsafe_archive"),
    "many": (lambda: of_names(*map(str, range(10_001))), "too_large"),
}


@pytest.mark.chaos
@pytest.mark.slow("the archive of too many files is made once")
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_archive_is_refused(name: str) -> None:
    make, why = HOSTILE[name]
    desk = await open_desk(*TOOLS)
    await desk.put("task://x.zip", make())
    found = await desk.refusal("unzip", input_path="task://x.zip", output_dir="session://out")
    assert found == why
    assert not await desk.files.exists(parse_path("session://out"))


async def test_one_wrong_byte_anywhere_is_refused_or_does_no_harm() -> None:
    original = named("a.txt", "b/c.txt")
    desk = await open_desk(*TOOLS)
    for number in range(len(original)):
        damaged = bytearray(original)
        damaged[number] ^= 0xFF
        await desk.put("task://x.zip", bytes(damaged))
        where = {"input_path": "task://x.zip", "output_dir": f"session://{number}"}
        envelope = await desk.call("unzip", **where)
        if envelope.error is not None:
            assert envelope.error.details, envelope.error
            assert not await desk.files.exists(parse_path(where["output_dir"]))


NOT_UNPACKED = [
    ("task://none", "task://out", "not_found"),
    ("task://", "task://out", "is_directory"),
    ("task://x.zip", "task://taken", "exists"),
    ("task://x.zip", "task://x.zip", "not_a_directory"),
    ("x.zip", "task://out", "invalid"),
    ("task://x.zip", "/out", "invalid"),
]


@pytest.mark.parametrize(("source", "target", "why"), NOT_UNPACKED)
async def test_an_unsafe_archive_is_not_unpacked(source: str, target: str, why: str) -> None:
    desk = await open_desk(*TOOLS)
    await desk.put("task://x.zip", named("new.txt", "old.txt"))
    await desk.put("task://taken/old.txt", "mine")
    assert await desk.refusal("unzip", input_path=source, output_dir=target) == why
    assert await desk.get("task://taken/old.txt") == b"mine"
    assert not await desk.files.exists(parse_path("task://taken/new.txt"))


async def test_an_archive_over_the_quota_is_not_unpacked_in_part() -> None:
    desk = await open_desk(*TOOLS, limits=Limits(session_bytes=10))
    await desk.put("task://x.zip", named("first.txt", "second.txt"))
    where = {"input_path": "task://x.zip", "output_dir": "session://out"}
    assert await desk.refusal("unzip", **where) == "quota"
    assert not await desk.files.exists(parse_path("session://out"))


async def test_no_file_is_written_after_the_outcome() -> None:
    desk = await open_desk(*TOOLS, limits=Limits(file_bytes=5000))

    def fill(archive: zipfile.ZipFile) -> None:
        archive.writestr("large", bytes(5001), zipfile.ZIP_DEFLATED)
        for number in range(15):
            archive.writestr(f"{number}", bytes([number]) * 4000, zipfile.ZIP_DEFLATED)

    await desk.put("task://x.zip", packed(fill))
    before = asyncio.all_tasks()
    where = {"input_path": "task://x.zip", "output_dir": "task://out"}
    assert await desk.refusal("unzip", **where) == "too_large"
    assert asyncio.all_tasks() == before
    assert len(desk.bench.log.changes.given_up) == 15


async def test_directories_and_stored_files_are_no_harm() -> None:
    def fill(archive: zipfile.ZipFile) -> None:
        archive.mkdir("empty")
        archive.writestr("d/stored", b"x" * 10, zipfile.ZIP_STORED)

    desk = await open_desk(*TOOLS)
    await desk.put("task://x.zip", packed(fill))
    output = await desk.made("unzip", input_path="task://x.zip", output_dir="session://out")
    assert output["written_paths"] == ["session://out/d/stored"]
