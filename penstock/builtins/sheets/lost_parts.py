"""What a workbook loses with a save: the parts of its package that nothing here writes."""

import re
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from zipfile import ZipFile

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
"""What people call the parts of a file, by their names in it."""
_DRAWING = re.compile(r"xl/drawings/[^/]+\.xml")
_SHAPE = re.compile(rb"<(?:\w+:)?(?:sp|cxnSp)[\s>]")


def not_kept(before: bytes, save: Callable[[], bytes]) -> list[str]:
    """Return what a file has and its next save has not, such as `2 pictures`."""
    had = _parts(before)
    if not had:
        return []
    lost = had - _parts(save())
    return [f"{count} {kind}{'s' * (count > 1)}" for kind, count in sorted(lost.items())]


def _parts(content: bytes) -> Counter[str]:
    """Count the parts of a file that was looked through before."""
    found: Counter[str] = Counter()
    with ZipFile(BytesIO(content)) as package:
        for name in package.namelist():
            found.update(kind for kind, named in _KINDS.items() if named.match(name))
            if _DRAWING.fullmatch(name):
                found["shape"] += len(_SHAPE.findall(package.read(name)))
    return +found
