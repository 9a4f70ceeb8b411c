"""Zip packages taken apart and put together otherwise."""

import zipfile
from io import BytesIO


def with_part(content: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """Return a package in one part of which something is replaced; the part must have it."""
    made = BytesIO()
    with (
        zipfile.ZipFile(BytesIO(content)) as before,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for each in before.namelist():
            part = before.read(each)
            if each == name:
                assert old in part, part[-500:]
                part = part.replace(old, new)
            after.writestr(each, part)
    return made.getvalue()
