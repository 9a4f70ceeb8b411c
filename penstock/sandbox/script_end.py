"""Converts the end of a script into the output or the error of its tool call."""

import json
import re
from collections.abc import Mapping
from typing import Any

from penstock.core.call_errors import (
    BudgetExceeded,
    CallError,
    EgressDenied,
    Interrupted,
    NotAvailable,
    OutOfMemory,
    OutputTooLarge,
    ScriptError,
    ScriptLoadError,
    StateDenied,
    ToolFailed,
    ToolNotConfigured,
    UpstreamUnavailable,
    VaultDenied,
    VaultNotFound,
    is_free,
)
from penstock.core.diagnostics import Diagnostic
from penstock.sandbox.error_positions import point_at_new
from penstock.sandbox.messages import Message
from penstock.sandbox.script import Bounds, Script

_MOST_CHARACTERS = 512 * 1024
"""Characters of a message or a name that are read. The final cut (`error_chars`) comes after the
redaction of secrets: a secret that is cut in half would not be recognised."""
_LONGEST_STACK = 8192
_MOST_READ = 4 * _LONGEST_STACK
_OURS = re.compile(r"\((?:flo:|ext:|native\)|<anonymous>\))|\b(?:flo:guest|ext:)")
_FRAME = re.compile(r"\s+at ")
_NO_MEMORY = {
    ("InternalError", "out of memory"),
    ("RangeError", "Array buffer allocation failed"),
    ("RangeError", "Invalid string length"),
}
"""The errors (name and message) that engines throw when memory is exhausted."""
_THROWN: dict[str, type[CallError]] = {
    kind.code: kind
    for kind in (
        BudgetExceeded,
        EgressDenied,
        Interrupted,
        NotAvailable,
        OutputTooLarge,
        StateDenied,
        ToolNotConfigured,
        UpstreamUnavailable,
        VaultDenied,
        VaultNotFound,
    )
}
"""Codes of FloErrors that a script may catch. Uncaught, they become the error of its own call."""


def conclude(ending: Message, script: Script, bounds: Bounds) -> Any:
    """Return the output of a script, or raise its error."""
    match ending.kind:
        case "done":
            return _output(ending, bounds)
        case "large":
            raise _too_large(bounds)
        case "missing":
            raise _no_function(str(ending.value), script)
        case _:
            raise _thrown(ending.value, script)


def crashed(trap: str) -> CallError:
    """Return the error for a trap of the engine."""
    if "stack" in trap:
        return ScriptError("the script went too deep: its stack is used up")
    return ScriptError(f"the script broke its sandbox and was ended: {trap}")


def _no_function(found: str, script: Script) -> ScriptLoadError:
    message = f"{script.entry!r} must export a function {script.entrypoint!r}, found {found}"
    diagnostic = Diagnostic(
        code="entrypoint-missing", message=message, file=script.file or script.entry
    )
    return ScriptLoadError(message, details={"diagnostics": [diagnostic.to_wire()]})


def _output(ending: Message, bounds: Bounds) -> Any:
    if (
        len(json.dumps(ending.value, ensure_ascii=False, separators=(",", ":")).encode())
        > bounds.output_bytes
    ):
        raise _too_large(bounds)
    return ending.value


def _too_large(bounds: Bounds) -> OutputTooLarge:
    return OutputTooLarge(f"the output has over {bounds.output_bytes} bytes as JSON")


def _thrown(thrown: Any, script: Script) -> CallError:
    if not isinstance(thrown, dict):
        return ScriptError("the script threw an error that cannot be read")
    message = str(thrown.get("message", ""))[:_MOST_CHARACTERS]
    name = str(thrown.get("name", "Error"))[:_MOST_CHARACTERS]
    kind, code = thrown.get("kind"), str(thrown.get("code", ""))
    if kind == "tool" and is_free(code):
        return _failed(thrown, message, code)
    if kind == "flo" and code == ToolFailed.code:
        return _failed(thrown, message, code)
    if kind == "flo" and code in _THROWN:
        return _THROWN[code](message, details=_details(thrown))
    if (name, message) in _NO_MEMORY:
        return OutOfMemory()
    # Frames of the engine and of the guest sources are not the author's: they would only confuse.
    lines = str(thrown.get("stack", ""))[:_MOST_READ].splitlines()
    frames = [line for line in lines if _FRAME.match(line) and not _OURS.search(line)]
    stack = "\n".join(point_at_new(frames, name, script.modules))
    details = {"name": name, "stack": stack[:_LONGEST_STACK]}
    return ScriptError(message or "the script threw an error without a message", details=details)


def _failed(thrown: Mapping[str, Any], message: str, code: str) -> ToolFailed:
    return ToolFailed(
        message,
        code,
        retryable=thrown.get("retryable") is True,
        continuable=thrown.get("continuable") is not False,
        details=_details(thrown),
    )


def _details(thrown: Mapping[str, Any]) -> Mapping[str, Any] | None:
    details = thrown.get("details")
    return details if details is None or isinstance(details, dict) else {"value": details}
