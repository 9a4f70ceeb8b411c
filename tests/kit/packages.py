"""Zip packages, taken apart and put together with changes."""

import zipfile
from io import BytesIO


def with_part(content: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """Return a package in one part of which something is replaced; the part must have it."""
    made = BytesIO()
    with (
        zipfile.ZipFile(BytesIO(content)) as before,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for entry in before.namelist():
            part = before.read(entry)
            if entry == name:
                assert old in part, part[-500:]
                part = part.replace(old, new)
            after.writestr(entry, part)
    return made.getvalue()


def with_file(content: bytes, name: str, part: bytes) -> bytes:
    """Return a package with one more part."""
    made = BytesIO(content)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as package:
        package.writestr(name, part)
    return made.getvalue()
