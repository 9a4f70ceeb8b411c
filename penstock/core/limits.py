"""Every size, depth, count and time, with its default."""

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
    """Outcomes of all calls of one task, as text: it has them in memory. Over it: BUDGET_EXCEEDED.
    Of a call that code makes, a longer output than `body_bytes` is not among them."""
    nested_calls: int = 1000
    """Calls made from inside one call; of a script, where its manifest says nothing."""
    nested_in_flight: int = 64
    """Calls, and requests, that one script has under way at once; further ones wait their turn."""
    host_calls: int = 10_000
    """What one attempt of a script may ask of its host, of all kinds."""
    recorded_bytes: int = 64 * MIB
    """Results of what one attempt of a script asks of its host, together, as they are recorded."""
    processes: int = 0
    """Processes of scripts at once, with spares (engine `deno`, or hardened); further scripts wait,
    tasks in turn. 0: four a core, if half of the memory has 256 MiB for each, but at least four."""
    shell_commands: int = 4
    """Shell commands at once; further ones wait, tasks in turn."""
    shell_processes: int = 1024
    """Processes and threads of one enclosed shell command; with more it is stopped."""
    shell_memory_mb: int = 4096
    """Memory of one enclosed shell command, all its processes together; with more it is stopped."""
    events: int = 1000
    """Events that one attempt of a tool may emit, its progress among them; others are dropped."""
    timeout_ms: int = 60_000
    """Time at work of one attempt of a script, where its manifest says nothing."""
    log_bytes: int = 256 * KIB
    """What one call of a script may print, where its manifest says nothing."""
    script_memory_mb: int = 64
    """Memory of one script, where its manifest says nothing; that may ask for up to 512."""
    script_cpu_ms: int = 30_000
    """Computing time of one attempt of a script."""
    script_output_bytes: int = MIB
    """Output of a script, as JSON."""
    content_chars: int = 100_000
    """A user message."""
    image_bytes: int = 10 * MIB
    """An image or file taken out of a result and kept."""
    body_bytes: int = 32 * KIB
    """An event's body, as JSON; a larger one goes to the blob store."""
    activations: int = 2000
    """Logs at work at once in this process."""
    agent_turns: int = 100
    """Model calls in one visit of a step, where the agent says nothing else."""
    flow_model_calls: int = 10_000
    """Calls of models in one run of a flow, with those of agents that it calls."""
    flow_tool_calls: int = 100_000
    """Calls of tools in one run of a flow."""
    flow_tokens: int = 0
    """Tokens read and written in one run of a flow; 0, where nothing is set, is no limit."""
    flow_seconds: int = 0
    """How long one run of a flow may be at work; 0, where nothing is set, is no limit. Waits for
    people, and between tries of a step, do not count."""
    agent_reply_tokens: int = 8192
    """What one reply of an agent of flows may have, in tokens, where its settings do not say it."""
    flow_visits: int = 1000
    """Starts of steps in one run, those of sub-flows counted."""
    flow_runs: int = 32
    """Runs of flows at work at once in this process; more are queued."""
    workflow_max_concurrent: int = 5
    """Those among them that calls of tools began; at most 100."""
    workflow_seconds: float = 300
    """How long `execute_workflow` waits for a run, without the time in which that waits for people;
    at most 86,400."""
    lease_seconds: float = 3
    """How long a log stays with a process that does not renew its lease."""
    renew_seconds: float = 1
    """How often a lease is renewed."""
    sweep_seconds: float = 2
    """How often the launcher looks for logs that need a run."""
    recoveries: int = 5
    """Crashes of the process at one place of a log that are blamed on its task alone, before the
    task fails."""
    probation_seconds: float = 10
    """How long, at least, a task at which the process died twice is watched before suspects of
    another group resume; less if it gets past that place."""
    tool_threads: int = 32
    """Synchronous tools running at once."""
    compact_bytes: int = 32 * MIB
    """A SQLite file up to this size is rewritten after an erasure: about 10 ms a MiB, in which
    other writers wait. A larger one may hold copies of erased rows in unused parts of pages until
    somebody runs `VACUUM`."""
    readers: int = 4
    """Read connections."""
    busy_seconds: float = 5
    """How long a locked database is waited for."""
    queued_units: int = 10_000
    """Units of work waiting for the writer; then callers wait."""
    queued_tasks: int = 8
    """Messages waiting in one conversation."""
    stream_frames: int = 256
    """Items a slow reader of a stream may fall behind before it is cut."""
    streams: int = 2000
    """Open streams of the process."""
    streams_per_profile: int = 16
    """Open streams of one profile; none of this in local mode."""
    ping_seconds: float = 15
    """Silence on a stream before a comment is sent."""
    stalled_seconds: float = 30
    """How long the reader of a stream may take nothing before it is cut."""
    connections: int = 10_000
    """Connections that the server serves; fewer where the process may have fewer open files."""
    head_seconds: float = 10
    """How long the head of a request may take, from the connection or its first byte on."""
    body_seconds: float = 10
    """How long the body of a request may take, beyond what `body_bytes_per_second` allows."""
    body_bytes_per_second: int = KIB
    """How fast the body of a request has to come."""
    keep_alive_seconds: float = 5
    """How long a connection stays open without a request."""
    request_bytes: int = MIB
    """A request's JSON body."""
    key_look_seconds: float = 10
    """How long a request waits for the database to say which keys there are; then it gets a 503."""
    ready_seconds: float = 1
    """How long `/api/ready` waits for each of its checks; a check that takes longer has failed."""
    idempotency_seconds: int = 24 * 3600
    """How long an Idempotency-Key is remembered."""
    free_bytes: int = 100 * MIB
    """Free disk space under which the server says that it is not ready."""
    loose_seconds: int = 3600
    """How long bytes stay that no file has any more, and how often such are looked for."""
    web_link_seconds: int = 600
    """How long a link of `/web` works, if nobody uses it before."""
    web_key_seconds: int = 12 * 3600
    """How long who came by such a link may stay."""
    cut_again_seconds: float = 1
    """How often a tool that goes on after it was cancelled is cancelled again."""
    cut_seconds: float = 3
    """How long a tool that was cancelled may go on before it is left behind."""
    shutdown_seconds: float = 5
    """How long running calls may go on after a stop was asked for."""
    reply_bytes: int = 16 * MIB
    """A model's reply, as its server sends it."""
    model_connect_seconds: float = 10
    """How long a model's server may take to accept a connection."""
    model_silence_seconds: float = 180
    """How long a model's server may say nothing before it is given up."""
    model_end_seconds: float = 1
    """How long a connection is waited for after the last word of a reply, to be used again."""
    model_tries: int = 3
    """Attempts of one model call."""
    poll_seconds: float = 0.25
    """How often a log that another process writes is looked at by its readers."""
    live_text_seconds: float = 0.1
    """How often a reply on its way is written, and read, for readers in another process."""
    followed_seconds: float = 3
    """How long a reply is written for a reader in another process that says no more."""
    state_value_bytes: int = 256 * KIB
    """A value of the State, as JSON."""
    state_entries: int = 100_000
    """Values of the State in one scope."""
    read_bytes: int = 16 * MIB
    """A file that a script reads whole."""
    file_bytes: int = 64 * MIB
    """A file of a workspace."""
    task_bytes: int = 512 * MIB
    """All files of a task."""
    session_bytes: int = 2048 * MIB
    """All files of a conversation."""
    fetch_ms: int = 30_000
    """How long a request to another server may take, with all redirects."""
    fetch_request_bytes: int = 16 * MIB
    """A request's body."""
    fetch_response_bytes: int = 8 * MIB
    """A response's body, unpacked."""


class World(Struct, frozen=True):
    """Time, chance and bounds, as one argument."""

    clock: Clock
    limits: Limits
    new_id: NewId
