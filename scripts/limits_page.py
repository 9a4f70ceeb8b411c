"""The limits that a script meets, and what happens past each."""

from collections.abc import Iterable, Sequence

from penstock.core.call import CALL_DEPTH
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.resources.network import HEADER_BYTES
from penstock.resources.redirects import MAX_REDIRECTS
from penstock.resources.state import STATE_KEY_BYTES
from penstock.tools.python.capabilities import EVENT_BYTES, MAX_EVENTS
from penstock.tools.scripts.host import MAX_IN_FLIGHT
from penstock.tools.scripts.script import (
    LOG_LINE_BYTES,
    LOG_LINES,
    MESSAGE_BYTES,
    STACK_KB,
    TIMERS,
)

PAST = {
    "timeout_ms": "killed: `TIMEOUT`",
    "script_memory_mb": "an error that the script may catch, else `OUT_OF_MEMORY`",
    "script_cpu_ms": "killed: `TIMEOUT`, `details.reason` is `cpu`",
    "script_output_bytes": "`OUTPUT_TOO_LARGE`",
    "input_bytes": "`INVALID_INPUT`",
    "nested_calls": "the envelope `BUDGET_EXCEEDED`",
    "host_calls": "a `FloError`, `BUDGET_EXCEEDED`",
    "recorded_bytes": "a `FloError`, `BUDGET_EXCEEDED`",
    "log_bytes": "cut, with a mark",
    "fetch_ms": "a `FloError`, `UPSTREAM_UNAVAILABLE`",
    "fetch_request_bytes": "`TypeError`",
    "fetch_response_bytes": "a `FloError`, `OUTPUT_TOO_LARGE`",
    "read_bytes": "a `FloError`, `TOOL_FAILED`, reason `too_large`",
    "state_value_bytes": "`TypeError`",
    "state_entries": "a `FloError`, `TOOL_FAILED`, reason `quota`",
    "file_bytes": "the envelope `TOOL_FAILED`, reason `too_large`",
    "task_bytes": "the envelope `TOOL_FAILED`, reason `quota`",
    "session_bytes": "the envelope `TOOL_FAILED`, reason `quota`",
}

FIXED: Sequence[tuple[str, int, str]] = (
    ("Stack of a script, in KiB", STACK_KB, "`RangeError`"),
    (
        "Levels of nesting in an input or an output",
        JSON_DEPTH,
        "`INVALID_INPUT` of an input, `SCRIPT_ERROR` of an output",
    ),
    ("Calls nested in each other, with the outermost", CALL_DEPTH, "the envelope `DEPTH_EXCEEDED`"),
    ("Calls and requests in progress at once", MAX_IN_FLIGHT, "further ones are queued"),
    ("Events of one attempt, with progress", MAX_EVENTS, "dropped, after one warning"),
    ("The arguments of one host call, as JSON, in bytes", MESSAGE_BYTES, "`TypeError`"),
    ("Lines that one call prints", LOG_LINES, "dropped, after one mark"),
    ("One printed line, in bytes", LOG_LINE_BYTES, "cut, with a mark"),
    ("Timers that exist at once", TIMERS, "`RangeError`"),
    ("The payload of an event, as JSON, in bytes", EVENT_BYTES, "`TypeError`"),
    ("A key of the State, in bytes", STATE_KEY_BYTES, "`TypeError`"),
    ("Redirects of one request", MAX_REDIRECTS, "a `FloError`, `UPSTREAM_UNAVAILABLE`"),
    ("The headers of a response, in bytes", HEADER_BYTES, "a `FloError`, `OUTPUT_TOO_LARGE`"),
)
"""Limits that no setting changes."""


def script_limits(limits: Iterable[Sequence[str]]) -> str:
    """Return a table, from rows of name, type, default and meaning. Raises KeyError."""
    known = {name.strip("`").removeprefix("limits."): rest for name, *rest in limits}
    lines = ["| limit | default | of | past it |", "| --- | --- | --- | --- |"]
    for name, past in PAST.items():
        _, default, meaning = known[name]
        lines.append(f"| `{name}` | {default} | {meaning} | {past} |")
    lines += [f"| fixed | `{value:,}` | {meaning}. | {past} |" for meaning, value, past in FIXED]
    return "\n".join(lines)
