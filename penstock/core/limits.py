"""The limits that operators can set, with their defaults.

A limit is here if it sizes the runtime to a machine, a bill or a policy. A bound that only guards
an algorithm is a constant in the file that reads it.
"""

from dataclasses import dataclass

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.ids import NewId

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every size, depth, count and time of the runtime; `[limits]` of penstock.toml sets them.

    The unit is the end of a name: `_bytes`, `_chars`, `_kb` (KiB), `_mb` (MiB), `_ms`, `_seconds`.
    `docs/settings.md` lists all of them with their defaults.

    Example:
        >>> from penstock import Limits
        >>> Limits(tool_threads=8).tool_threads
        8
    """

    input_bytes: int = MIB
    """Input of a call, as JSON."""
    output_bytes: int = 16 * MIB
    """Output of a call, as JSON."""
    outcome_chars: int = 512 * MIB
    """Outcomes of all calls of one task together, as text: the task keeps them in memory. Above it
    calls fail with BUDGET_EXCEEDED. An output longer than `body_bytes` does not count if code made
    the call."""
    nested_calls: int = 1000
    """Calls made from inside one call. For scripts the default of the manifest."""
    host_calls: int = 10_000
    """Requests of one attempt of a script to its host, of all kinds."""
    recorded_bytes: int = 64 * MIB
    """Recorded results of all host requests of one attempt of a script."""
    processes: int = 0
    """Processes of scripts at once, with spares (engine `deno`, or hardened); further scripts are
    queued, tasks in turn. 0 means four per core if half of the memory has 256 MiB for each, but at
    least four."""
    shell_commands: int = 4
    """Shell commands at once; further ones are queued, tasks in turn."""
    shell_processes: int = 1024
    """Processes and threads of one isolated shell command; it is stopped if it needs more."""
    shell_memory_mb: int = 4096
    """Memory of all processes of one isolated shell command; it is stopped if it needs more."""
    timeout_ms: int = 60_000
    """Working time of one attempt of a script; the default of the manifest."""
    log_bytes: int = 256 * KIB
    """Output that one call of a script may print; the default of the manifest."""
    script_memory_mb: int = 64
    """Memory of one script; the default of the manifest, which may set up to 512."""
    script_cpu_ms: int = 30_000
    """Computing time of one attempt of a script."""
    script_output_bytes: int = MIB
    """Output of a script, as JSON."""
    content_chars: int = 100_000
    """A user message."""
    image_bytes: int = 10 * MIB
    """An image or file that is moved from a result to the blob store."""
    attachment_bytes: int = 20 * MIB
    """A file of a message."""
    message_attachment_bytes: int = 50 * MIB
    """All files of a message."""
    attachments: int = 100
    """Files of a message."""
    body_bytes: int = 32 * KIB
    """An event's body, as JSON; a larger one goes to the blob store."""
    activations: int = 2000
    """Logs that this process works on at once."""
    agent_turns: int = 100
    """Model calls in one visit of a step; the default of agents."""
    run_depth: int = 16
    """Agents inside each other as tools, runs of flows inside each other by calls of tools, and
    hand-offs in one task; at most 32."""
    flow_model_calls: int = 10_000
    """Calls of models in one run of a flow, including those of agents that it calls."""
    flow_tool_calls: int = 100_000
    """Calls of tools in one run of a flow."""
    flow_tokens: int = 0
    """Tokens read and written in one run of a flow; 0 means no limit."""
    flow_seconds: int = 0
    """Working time of one run of a flow; 0 means no limit. Waiting for people, and between attempts
    of a step, does not count."""
    agent_reply_tokens: int = 8192
    """Tokens in one reply of an agent of a flow; the default of agents."""
    flow_visits: int = 1000
    """Starts of steps in one run, including those of sub-flows."""
    flow_runs: int = 32
    """Runs of flows that this process works on at once; more are queued."""
    workflow_max_concurrent: int = 5
    """How many of these runs may have been started by tools; at most 100."""
    workflow_seconds: float = 300
    """How long `execute_workflow` waits for a run, not counting the time in which the run waits for
    people; at most 86,400."""
    child_tasks: int = 1000
    """Tasks below one task, with those that have ended."""
    child_depth: int = 4
    """How deep tasks are below each other."""
    child_parallel: int = 16
    """Tasks below one task that work at once; more are queued."""
    child_seconds: float = 1800
    """Working time of a child; waiting does not count."""
    lease_seconds: float = 3
    """How long a process keeps a log without renewing its lease."""
    sweep_seconds: float = 2
    """How often the launcher searches for logs that need a run."""
    recoveries: int = 5
    """A task fails after this many crashes in a row at the same position that are blamed on it
    alone."""
    probation_seconds: float = 10
    """The shortest probation of a task at which the process died twice. Suspects of another group
    wait until it ends, or until the task gets past that position."""
    tool_threads: int = 32
    """Synchronous tools that run at once."""
    compact_bytes: int = 32 * MIB
    """A SQLite file up to this size is rewritten after an erasure: about 10 ms per MiB, in which
    other writers wait. A larger one may keep copies of erased rows in unused parts of pages until
    you run `VACUUM`."""
    agent_schedules: int = 100
    """Active schedules of one agent that its model may create."""
    schedule_late_seconds: float = 3600
    """How late a due time may start its task, for example after the process was off; an older one
    is counted as missed."""
    archive_days: float = 0
    """A server moves old bodies of long logs into compressed blobs once they have this age; 0 means
    never."""
    readers: int = 4
    """Connections for reading."""
    busy_seconds: float = 5
    """How long to wait for a locked database."""
    queued_tasks: int = 8
    """Messages in the queue of one conversation."""
    streams: int = 2000
    """Open streams of this process."""
    streams_per_profile: int = 16
    """Open streams of one profile; not in local mode."""
    ping_seconds: float = 15
    """How long a stream may be silent before a comment is sent."""
    stalled_seconds: float = 30
    """How long a reader of a stream may accept nothing before it is disconnected."""
    connections: int = 10_000
    """Connections that the server accepts; fewer if the process may open fewer files."""
    head_seconds: float = 10
    """How long the head of a request may take, from the connection or its first byte."""
    body_seconds: float = 10
    """How long the body of a request may take, in addition to one second for each KiB."""
    keep_alive_seconds: float = 5
    """How long a connection stays open without a request."""
    request_bytes: int = MIB
    """The JSON body of a request."""
    key_look_seconds: float = 10
    """How long a request waits for the database to report whether keys exist; then it gets a
    503."""
    ready_seconds: float = 1
    """How long `/api/ready` waits for each of its checks; a check that takes longer has failed."""
    idempotency_seconds: int = 24 * 3600
    """How long an Idempotency-Key is remembered."""
    free_bytes: int = 100 * MIB
    """Free disk space below which the server reports that it is not ready."""
    web_key_seconds: int = 12 * 3600
    """How long access by such a link lasts."""
    toolset_seconds: float = 30
    """How long a toolset may take to return its tools."""
    cut_seconds: float = 3
    """How long a cancelled tool may continue before it is abandoned."""
    shutdown_seconds: float = 5
    """How long running calls may continue after a stop was requested."""
    reply_bytes: int = 16 * MIB
    """The reply of a model, as its server sends it."""
    carry_bytes: int = 256 * KIB
    """The size of a reply's signed thinking, which its provider receives back; more is not kept."""
    model_silence_seconds: float = 180
    """How long a model's server may send nothing before the request fails."""
    model_end_seconds: float = 1
    """How long to wait for the end of a response after its last token, so that the connection can
    be reused."""
    model_tries: int = 3
    """Attempts of one request to a model."""
    poll_seconds: float = 0.25
    """How often readers look for new events in a log that another process writes."""
    state_value_bytes: int = 256 * KIB
    """A value of the State, as JSON."""
    state_entries: int = 100_000
    """Values of the State in one scope."""
    dispatcher_subjects: int = 100_000
    """Subjects of one dispatcher of `flo.dispatcher`, for each profile."""
    read_bytes: int = 16 * MIB
    """A file that a script reads completely."""
    file_bytes: int = 64 * MIB
    """A file of a workspace."""
    task_bytes: int = 512 * MIB
    """All files of a task."""
    session_bytes: int = 2048 * MIB
    """All files of a conversation."""
    undo_bytes: int = 256 * MIB
    """Replaced files that a conversation keeps for undos; above it the oldest are deleted."""
    fetch_ms: int = 30_000
    """How long a request to another server may take, including redirects."""
    fetch_request_bytes: int = 16 * MIB
    """The body of a request to another server."""
    fetch_response_bytes: int = 8 * MIB
    """The body of its response, decompressed."""


class World(Struct, frozen=True):
    """The clock, the limits and the source of ids, as one argument."""

    clock: Clock
    limits: Limits
    new_id: NewId
