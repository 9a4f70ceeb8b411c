"""The limits that a script meets, and what happens past each."""

from collections.abc import Iterable, Sequence

PAST = {
    "timeout_ms": "killed: `TIMEOUT`",
    "script_memory_mb": "an error that the script may catch, else `OUT_OF_MEMORY`",
    "script_cpu_ms": "killed: `TIMEOUT`, `details.reason` is `cpu`",
    "script_stack_kb": "`RangeError`",
    "script_output_bytes": "`OUTPUT_TOO_LARGE`",
    "input_bytes": "`INVALID_INPUT`",
    "json_depth": "`INVALID_INPUT` of an input, `SCRIPT_ERROR` of an output",
    "call_depth": "the envelope `DEPTH_EXCEEDED`",
    "nested_calls": "the envelope `BUDGET_EXCEEDED`",
    "nested_in_flight": "further ones wait their turn",
    "host_calls": "a `FloError`, `BUDGET_EXCEEDED`",
    "recorded_bytes": "a `FloError`, `BUDGET_EXCEEDED`",
    "message_bytes": "`TypeError`",
    "log_bytes": "cut, with a mark",
    "log_lines": "dropped, after one mark",
    "log_line_bytes": "cut, with a mark",
    "timers": "`RangeError`",
    "events": "dropped, after one warning",
    "event_bytes": "`TypeError`",
    "fetch_ms": "a `FloError`, `UPSTREAM_UNAVAILABLE`",
    "fetch_request_bytes": "`TypeError`",
    "fetch_response_bytes": "a `FloError`, `OUTPUT_TOO_LARGE`",
    "fetch_header_bytes": "a `FloError`, `OUTPUT_TOO_LARGE`",
    "fetch_redirects": "a `FloError`, `UPSTREAM_UNAVAILABLE`",
    "read_bytes": "a `FloError`, `TOOL_FAILED`, reason `too_large`",
    "state_value_bytes": "`TypeError`",
    "state_key_bytes": "`TypeError`",
    "state_entries": "a `FloError`, `TOOL_FAILED`, reason `quota`",
    "file_bytes": "the envelope `TOOL_FAILED`, reason `too_large`",
    "task_bytes": "the envelope `TOOL_FAILED`, reason `quota`",
    "session_bytes": "the envelope `TOOL_FAILED`, reason `quota`",
}


def script_limits(limits: Iterable[Sequence[str]]) -> str:
    """Return a table, from rows of name, type, default and meaning. Raises KeyError."""
    known = {name.strip("`").removeprefix("limits."): rest for name, *rest in limits}
    lines = ["| limit | default | of | past it |", "| --- | --- | --- | --- |"]
    for name, past in PAST.items():
        _, default, meaning = known[name]
        lines.append(f"| `{name}` | {default} | {meaning} | {past} |")
    return "\n".join(lines)
