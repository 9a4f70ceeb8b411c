"""Converts the end of a script into the output or the error of its tool call.

The position of an error is corrected from its arguments to its `new`: QuickJS reports the end of
the arguments of `new Error(…)`, V8 the `new`. Authors look for the `new`, and both engines should
report the same, so the source is searched backwards from the reported position. The search is
textual and bounded: if it finds nothing, the frame stays as it is.
"""

import json
import re
from collections.abc import Mapping, Sequence
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
from penstock.sandbox.messages import Message
from penstock.sandbox.script import Bounds, Module, Script

_MAX_CHARACTERS = 512 * 1024
"""Characters of a message or a name that are read. The final cut (`error_chars`) comes after the
redaction of secrets: a secret that is cut in half would not be recognised."""
_MAX_STACK = 8192
_MAX_READ = 4 * _MAX_STACK
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
_POSITION = re.compile(
    r"^(\s+at (?:(?P<within>[\w$.]+) )?\(?tool:///(?P<file>.+?)):(\d{1,9}):(\d{1,9})(\)?)$"
)
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_MADE = re.compile(r"(?:\bnew\s+)?(?P<callee>[\w$][\w$.]*)\s*$")
_CALLEE = re.compile(r"[\w$.]+")
_FARTHEST = 4000
"""Most characters between the `new` and the reported position."""
_MAX_NAME_LENGTH = 200


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


def _no_function(kind: str, script: Script) -> ScriptLoadError:
    message = f"{script.entry!r} must export a function {script.entrypoint!r}, found {kind}"
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
    message = str(thrown.get("message", ""))[:_MAX_CHARACTERS]
    name = str(thrown.get("name", "Error"))[:_MAX_CHARACTERS]
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
    lines = str(thrown.get("stack", ""))[:_MAX_READ].splitlines()
    frames = [line for line in lines if _FRAME.match(line) and not _OURS.search(line)]
    stack = "\n".join(point_at_new(frames, name, script.modules))
    details = {"name": name, "stack": stack[:_MAX_STACK]}
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


def point_at_new(frames: Sequence[str], name: str, modules: Mapping[str, Module]) -> list[str]:
    """Return the frames of an error of this name, the first one at the `new` of the error."""
    kept = list(frames)
    while len(kept) > 1 and (within := _within(kept[0])):
        moved = _moved(kept[1], within, modules)
        if moved is None or not _is_new(moved, modules):
            break
        # The top frame is the constructor of an error class: its caller is more useful.
        name, kept = within, kept[1:]
    if kept:
        kept[0] = _moved(kept[0], name, modules) or kept[0]
    return kept


def _within(frame: str) -> str | None:
    matched = _POSITION.match(frame)
    return matched["within"] if matched else None


def _moved(frame: str, name: str, modules: Mapping[str, Module]) -> str | None:
    """Return the frame moved to the `new` of its expression, if that constructs this name."""
    matched = _POSITION.match(frame)
    module = modules.get(matched["file"]) if matched else None
    if matched is None or module is None:
        return None
    position = _construction(module.source, int(matched[4]), int(matched[5]), name)
    return None if position is None else f"{matched[1]}:{position[0]}:{position[1]}{matched[6]}"


def _is_new(frame: str, modules: Mapping[str, Module]) -> bool:
    """Whether a frame is at a `new`: a function may also be called without it."""
    matched = _POSITION.match(frame)
    if matched is None:
        return False
    line = modules[matched["file"]].source.split("\n")[int(matched[4]) - 1]
    return line.startswith("new", int(matched[5]) - 1)


def _construction(source: str, line: int, column: int, name: str) -> tuple[int, int] | None:
    lines = source.split("\n")
    if line > len(lines):
        return None
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    start = _start(source, offset, name)
    if start is None:
        return None
    before = source[:start]
    return before.count("\n") + 1, start - before.rfind("\n")


def _start(source: str, offset: int, name: str) -> int | None:
    """Return where the `new` expression around an offset starts."""
    if source.startswith("new", offset):
        return offset
    least = max(offset - _FARTHEST, 0)
    if callee := _CALLEE.match(source, offset):
        text = source[least : callee.end()]
    else:
        text = source[least:offset]
    if callee and (start := _start_of_callee(text, name)) is not None:
        return least + start
    # Blank strings, so that their parentheses do not count; then walk back over closed pairs.
    before = _TEXT.sub(lambda text: " " * len(text[0]), source[least:offset])
    closed = 0
    for index in range(len(before) - 1, -1, -1):
        if before[index] == ")":
            closed += 1
        elif before[index] == "(" and closed:
            closed -= 1
        elif before[index] == "(" and (start := _start_of_callee(before[:index], name)) is not None:
            return least + start
    return None


def _start_of_callee(text: str, name: str) -> int | None:
    """Return where `new NAME` (or `NAME`) starts at the end of a text, or None."""
    skipped = max(len(text) - _MAX_NAME_LENGTH, 0)
    matched = _MADE.search(text[skipped:])
    if matched is None or matched["callee"].rpartition(".")[2] != name:
        return None
    return skipped + matched.start()
