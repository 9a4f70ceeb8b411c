"""The package of an Excel file: a zip of XML, checked before openpyxl reads it.

openpyxl has no limits: a small file can unpack to gigabytes, nest XML deeply, or merge a million
cells into objects. `take_census` reads every part once with expat and refuses such files, and XML
with a document type. At most the declared size of a part is read, which bounds the memory.
Proof: tests/builtins/sheets/test_package.py.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from struct import error as StructError  # noqa: N812  the module gives it this name
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from penstock.builtins.sheets.cells import read_area
from penstock.core.call_errors import ToolFailed, tool_failure

MAX_UNPACKED = 128 * 1024 * 1024
MAX_PARTS = 10_000
MAX_ELEMENTS = 2_000_000
"""Maximum of elements and attributes: openpyxl needs many times their size in memory."""
MAX_AREA = 1_000_000
"""Maximum of cells in merged, linked and commented ranges: each becomes an object."""
_MAX_DEPTH = 64
_BROKEN = (BadZipFile, EOFError, OSError, RuntimeError, StructError, zlib.error)
_AREAS = {"mergeCell", "hyperlink", "table", "comment"}
_XML = (b"<", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0")
_UNREAD = (".vml", ".bin", ".png", ".jpeg", ".jpg", ".gif", ".emf", ".wmf")


class PartCounts:
    """Counts over all parts of one file."""

    def __init__(self) -> None:
        self.formulas = 0
        self._elements = 0
        self._area = 0
        self._depth = 0

    def count(self, part: bytes) -> None:
        """Count the elements and areas of one part. Raises ToolFailed and ExpatError."""
        self._depth = 0
        parser = expat.ParserCreate(namespace_separator="\n")
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.Parse(part, True)  # noqa: FBT003

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1 + len(attributes)
        if self._depth > _MAX_DEPTH:
            raise bad_format("its XML is nested too deeply")
        if self._elements > MAX_ELEMENTS:
            raise too_large("it holds more than is read at once")
        local = name.rpartition("\n")[2]
        if local == "f":
            self.formulas += 1
        elif local in _AREAS and "ref" in attributes:
            self._area += read_area(attributes["ref"]).size
            if self._area > MAX_AREA:
                raise too_large("it merges or links more cells than are read at once")

    def _end(self, name: str) -> None:
        del name
        self._depth -= 1

    def _refuse(self, *declared: object) -> None:
        del declared
        raise bad_format("its XML declares a document type, which no workbook needs")


def take_census(content: bytes) -> PartCounts:
    """Return the counts of an Excel file. Raises ToolFailed if a limit is exceeded."""
    census = PartCounts()
    if content.count(b"PK\1\2") > 10 * MAX_PARTS:
        raise too_large("it has too many parts")
    try:
        with ZipFile(BytesIO(content)) as package:
            infos = package.infolist()
            if len(infos) > MAX_PARTS or sum(each.file_size for each in infos) > MAX_UNPACKED:
                raise too_large(f"it has more than {MAX_UNPACKED} bytes unpacked")
            for info in infos:
                with package.open(info) as opened:
                    # without a bound, a false size would not bound what is unpacked in memory
                    part = opened.read(info.file_size + 1)
                is_xml = part.lstrip()[:3].startswith(_XML)
                if is_xml and not info.filename.lower().endswith(_UNREAD):
                    census.count(part)
    except _BROKEN as error:
        raise bad_format(f"it is not an Excel file: {error}") from error
    except (expat.ExpatError, ValueError) as error:
        raise bad_format(f"its XML cannot be read: {error}") from error
    except ToolFailed as error:
        if (error.details or {}).get("reason") != "bad_range":
            raise
        raise bad_format(f"it names cells that do not exist: {error}") from error
    return census


def bad_format(message: str) -> ToolFailed:
    """Return the error for a file that is not a valid workbook."""
    return tool_failure("bad_format", f"the workbook cannot be used: {message}")


def too_large(message: str) -> ToolFailed:
    """Return the error for a workbook that is too large."""
    return tool_failure("too_large", f"the workbook cannot be used: {message}")


# ---- what a save loses ----

_KINDS = {
    "picture": re.compile(r"xl/media/."),
    "chart": re.compile(r"xl/charts/chart(?:Ex)?\d*\.xml"),
    "pivot table": re.compile(r"xl/pivotTables/\w+\.xml"),
    "slicer": re.compile(r"xl/(?:slicers|timelines)/\w+\.xml"),
    "embedded object": re.compile(r"xl/embeddings/."),
    "form control": re.compile(r"xl/ctrlProps/\w+\.xml"),
    "threaded comment": re.compile(r"xl/threadedComments/\w+\.xml"),
    "query": re.compile(r"xl/(?:queryTables|connections)\b.*\.xml"),
}
"""Kinds of parts, by their names in the package."""
_DRAWING = re.compile(r"xl/drawings/[^/]+\.xml")
_SHAPE = re.compile(rb"<(?:\w+:)?(?:sp|cxnSp)[\s>]")


def not_kept(before: bytes, save: Callable[[], bytes]) -> list[str]:
    """Return what the next save of a file loses, such as `2 pictures`."""
    had = _parts(before)
    if not had:
        return []
    lost = had - _parts(save())
    return [f"{count} {kind}{'s' * (count > 1)}" for kind, count in sorted(lost.items())]


def _parts(content: bytes) -> Counter[str]:
    """Count the parts of a file that `take_census` has accepted."""
    counts: Counter[str] = Counter()
    with ZipFile(BytesIO(content)) as package:
        for name in package.namelist():
            counts.update(kind for kind, named in _KINDS.items() if named.match(name))
            if _DRAWING.fullmatch(name):
                counts["shape"] += len(_SHAPE.findall(package.read(name)))
    return +counts
