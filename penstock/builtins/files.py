"""Tools for files of the workspace, as text and as base64, and for directories."""

import base64
from typing import Any

from penstock.core.call import Effect
from penstock.core.call_errors import not_utf8, tool_failure
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.core.stored.changes import WorkspaceChange
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT, URI, builtin, place, whole

MAX_READ = 16_384
MAX_WRITTEN = 65_536
MAX_ENCODED = 262_144


@builtin(
    "Read a UTF-8 text file of the workspace, whole. A file over max_bytes fails with too_large: "
    "read it with a tool that takes parts.",
    {"path": URI, "max_bytes?": whole(1, MAX_READ)},
    effect=Effect.READ,
)
async def read_text_file(input: Json, invocation: Invocation) -> Any:
    """Return the text of a file."""
    path, most = place(input, "path", invocation), input.get("max_bytes", MAX_READ)
    content = await invocation.workspace.read(path, most=most)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(str(path), error) from None
    return {"path": str(path), "content": text, "size_bytes": len(content), "max_bytes": most}


@builtin(
    "Write a UTF-8 text file of the workspace; an existing file is overwritten. Use task:// for "
    "this task only, session:// for the whole conversation.",
    {"path": URI, "content": TEXT},
    effect=Effect.WRITE,
)
async def write_text_file(input: Json, invocation: Invocation) -> Any:
    """Write a file."""
    path = place(input, "path", invocation)
    content = _encoded(input["content"], invocation)
    change = await invocation.workspace.write(path, content)
    invocation.change = WorkspaceChange(files=(change,))
    return {"path": str(path), "bytes_written": len(content)}


@builtin(
    "Read a file of the workspace as base64, whole: images, PDF and the like. A file over "
    "max_bytes fails with too_large.",
    {"path": URI, "max_bytes?": whole(1, MAX_ENCODED)},
    effect=Effect.READ,
)
async def read_file_base64(input: Json, invocation: Invocation) -> Any:
    """Return the bytes of a file."""
    path, most = place(input, "path", invocation), input.get("max_bytes", MAX_ENCODED)
    content = await invocation.workspace.read(path, most=most)
    return {
        "path": str(path),
        "base64_data": base64.b64encode(content).decode(),
        "size_bytes": len(content),
        "max_bytes": most,
    }


@builtin(
    "List the entries of a directory of the workspace, by name, without its subdirectories: at "
    "most 1,000, then truncated is true. task:// and session:// are the roots.",
    {"path": URI},
    effect=Effect.READ,
)
async def read_dir(input: Json, invocation: Invocation) -> Any:
    """Return the immediate children of a directory."""
    path = place(input, "path", invocation)
    children, is_cut = await invocation.workspace.children(path)
    entries = [
        {
            "path": str(path / each.name),
            "name": each.name,
            "entry_type": "directory" if each.file is None else "file",
        }
        for each in children
    ]
    listed = {"path": str(path), "entry_count": len(entries), "entries": entries}
    return {**listed, "truncated": True} if is_cut else listed


def _encoded(text: str, invocation: Invocation) -> bytes:
    try:
        content = text.encode()
    except UnicodeEncodeError:
        problem = Problem("/content", "is Unicode text without lone surrogates")
        raise invalid(invocation.spec.tool_id, [problem]) from None
    if len(content) > MAX_WRITTEN:
        raise tool_failure(
            "too_large", f"a text file has at most {MAX_WRITTEN} bytes, this has {len(content)}"
        )
    return content


TOOLS = (read_text_file, write_text_file, read_file_base64, read_dir)
