// The global `flo`, and the module "flo:runtime" with the same members.

type FloJsonValue = null | boolean | number | string | FloJsonValue[] | { [key: string]: FloJsonValue };
interface FloStructuredError { code: string; message: string; retryable: boolean; continuable: boolean; details?: FloJsonValue }
type FloToolCallResult<O> =
  | { status: "success"; output: O; error?: undefined }
  | { status: "failed" | "timeout" | "validation_error" | "suspended"; output?: O; error?: FloStructuredError; question_id?: string };

/** The input of a tool: known for the tools of FloToolMap, any JSON object for others. */
type FloIn<K> = K extends keyof FloToolMap ? FloToolMap[K]["input"] : { [key: string]: FloJsonValue };
/** The output of a tool: known for the tools of FloToolMap. */
type FloOut<K> = K extends keyof FloToolMap ? FloToolMap[K]["output"] : unknown;
/** `input` is optional if `{}` is a valid input. */
type FloGiven<I> = {} extends I ? { input?: I } : { input: I };
type FloToolCall<K> = { tool_id: K; /** false: do not wait for a person; the answer is `suspended`. */ wait?: boolean } & FloGiven<FloIn<K>>;

/** The error with which functions of `flo` reject. */
interface FloError extends Error {
  readonly name: "FloError";
  readonly code: string;
  readonly retryable: boolean;
  readonly continuable: boolean;
  readonly details?: FloJsonValue;
}
/** An error that a script throws to fail its call with these members. */
interface FloToolError extends Error {
  readonly name: "ToolError";
  readonly code: string;
  readonly retryable: boolean;
  readonly continuable: boolean;
  readonly details?: FloJsonValue;
}

type FloScopeKind = { scope_kind: "profile" | "session" | "task" | "shared" };
type FloWrite = { ttl_seconds?: number; /** Absent: write always; null: write only if there is no value. */ if_revision?: string | null };
interface FloStateEntry<T> { key: string; value: T; revision: string; expires_at?: string }
interface FloStateWriteResult<T> { ok: boolean; entry?: FloStateEntry<T>; conflict_revision?: string }
interface FloStatePage<T> { entries: FloStateEntry<T>[]; next_cursor?: string }

type FloVaultRequest = { scope: "profile"; key: string } | { scope: "shared"; scope_id: string; key: string };
/** A secret that a script can pass to `fetch` but not read: its text is a placeholder. */
interface FloSecret { toString(): string; toJSON(): string }

interface FloTaskContext {
  task_id: string;
  session_id: string;
  selected_skill_ids: string[];
  call: { call_id: string; tool_id: string; depth: number; entry: number; attempt: number; idempotency_key: string };
  /** From the second entry on: the newest answer to this call, or the batch whose children have ended. */
  resume_payload?: { kind: "user_message" | "timeout" | "approval" | "batch"; user_message?: string; batch_id?: string; [key: string]: FloJsonValue | undefined };
}
interface FloProfile { profile_id: string; profile_kind: "user" | "builtin"; permissions: string[] }
interface FloTaskEvent { event_type: string; title?: string; message?: string; level?: "info" | "warning" | "error"; payload?: FloJsonValue }
interface FloRetry { max_attempts?: number; initial_backoff_ms?: number; multiplier?: number; max_backoff_ms?: number }
interface FloStep<I> { key: string; version: string | number; input: I; input_schema?: FloJsonValue; output_schema?: FloJsonValue; retry?: FloRetry }
interface FloStepEntry<I> { input: I; attempt: number; idempotency_key: string }
interface FloWait<P> { user_message: string; resume_payload?: P; resume_schema?: FloJsonValue; timeout?: { seconds: number; resume_prompt: string } }
type FloWaitResult<P> =
  | { resume_reason: "user_message"; user_message: string; resume_payload?: P }
  | { resume_reason: "timeout"; resume_prompt: string; resume_payload?: P };

interface FloChild {
  worker_kind: "extractor" | "matcher" | "classifier" | "summarizer" | "aggregator" | "verifier";
  title: string;
  objective: string;
  input: FloJsonValue;
  selected_skill_ids?: string[];
}
interface FloBatch {
  batch_id: string;
  parent_task_id: string;
  mode: "join_required" | "detached";
  consumed: boolean;
  children: { child_task_id: string; worker_kind: string; title: string; objective: string }[];
  created_at: string;
  updated_at: string;
}
interface FloChildResult {
  child_task_id: string;
  worker_kind: string;
  status: "completed" | "failed" | "timeout" | "running" | "queued" | "suspended" | "blocked" | "cancelled";
  output: FloJsonValue;
  error?: string;
  completed_at?: string;
}
interface FloBatchResults { batch: FloBatch; results: FloChildResult[]; all_terminal: boolean }
interface FloSubagentResult {
  subagent_task_id: string;
  worker_kind: string;
  status: "completed" | "failed" | "suspended";
  output: FloJsonValue;
  output_text: string;
  error?: string;
  /** The questions that are open; the same arguments continue the work once they are answered. */
  suspension?: { question_ids: string[] };
}
interface FloDependency { task_id: string; alias: string }
interface FloDependencies { dependencies?: FloDependency[]; failure_policy?: "require_success" | "all_settled" }
interface FloSpawn extends FloDependencies {
  key: string;
  title: string;
  objective: string;
  input: FloJsonValue;
  input_schema: FloJsonValue;
  output_schema: FloJsonValue;
  dependency_condition?: "all" | "any";
  selected_skill_ids?: string[];
  allowed_tools?: string[];
  max_turns?: number;
}
interface FloDependencyWait { key: string; dependencies: FloDependency[]; condition?: "all" | "any"; failure_policy?: "require_success" | "all_settled" }
interface FloDependencyResult { task_id: string; alias: string; status: string; output?: FloJsonValue; error?: string; completed_at?: string }
interface FloSubject {
  dispatcher_id: string;
  subject_key: string;
  status: "idle" | "leased" | "running" | "succeeded" | "failed";
  cursor?: FloJsonValue;
  meta?: FloJsonValue;
  next_due_at?: string;
  lease_owner_id?: string;
  lease_expires_at?: string;
  attempt: number;
  failure_count: number;
  consecutive_timeouts: number;
  last_error?: FloStructuredError;
  last_started_at?: string;
  last_finished_at?: string;
  last_success_at?: string;
  revision: number;
  created_at: string;
  updated_at: string;
}
type FloSubjectAt = { dispatcher_id: string; subject_key: string; revision: number };
/** `retryable` is false by default, `continuable` true. */
type FloSubjectError = Pick<FloStructuredError, "code" | "message"> & Partial<FloStructuredError>;
type FloNewSubject = { subject_key: string; cursor?: FloJsonValue; meta?: FloJsonValue; next_due_at?: string };
type FloBrowserCommand = { command: "goto" | "reload" | "fill" | "click" | "press" | "select" | "wait_for" | "extract" | "evaluate" | "screenshot"; [key: string]: FloJsonValue };
interface FloBrowserResult { current_url?: string; text?: string; attribute?: string; value?: FloJsonValue; screenshot_base64?: string }
type FloRequestMatcher = ({ url: string } | { url_regex: string }) & { method?: string; resource_types?: string[] };

/** The global `flo`. */
interface Flo {
  /** Call another tool. It does not throw if the tool fails: check `status`. */
  callTool<const K extends keyof FloToolMap | (string & {})>(request: FloToolCall<K>): Promise<FloToolCallResult<FloOut<K>>>;
  /** Wait, at most an hour. The time counts towards `timeout_ms`. */
  sleep(ms: number): Promise<void>;
  /** Read a text of `runtime_config` in penstock.toml. */
  getRuntimeConfig(key: string): Promise<string | undefined>;
  /** Refer to a file of the workspace in a FormData; it is read when `fetch` sends it. */
  file(path: string, options?: { name?: string; type?: string; lastModified?: number }): File;
  /** Throw it to fail the call with your own code. */
  readonly ToolError: new (given: { code: string; message: string; retryable?: boolean; continuable?: boolean; details?: FloJsonValue }) => FloToolError;
  /** The class of errors of `flo`, for `instanceof`. Scripts cannot construct it. */
  readonly FloError: abstract new (only: never) => FloError;
  readonly time: FloTime;
  readonly vault: FloVault;
  readonly state: FloState;
  readonly task: FloTask;
  readonly fs: FloFiles;
  readonly dispatcher: FloDispatcher;
  readonly browser: FloBrowser;
}

/** Formatted times. */
interface FloTime {
  /** Format a time; synchronous. Tokens are `YYYY MM DD HH mm ss`, or `[year] [month] [day] [hour] [minute] [second]` if the format contains a `[`. Zones are IANA names; the default is UTC. */
  formatUnixTimestamp(seconds: number, format: string, timezone?: string): string;
}

/** Secrets that the manifest declares. */
interface FloVault {
  /** Read a secret whose key the manifest declares. */
  get(request: FloVaultRequest): Promise<string>;
  /** Get a placeholder, which `fetch` replaces by the secret in headers, queries and text bodies. */
  handle(request: FloVaultRequest): Promise<FloSecret>;
}

/** Durable values under the prefixes that the manifest declares. */
interface FloState {
  /** Read the entry of a key that a binding of the manifest covers; `null` if there is none. */
  get<T = FloJsonValue>(request: FloScopeKind & { key: string }): Promise<FloStateEntry<T> | null>;
  /** List entries in the order of their keys: 100, or `limit` up to 1000, and a cursor for the next page. */
  list<T = FloJsonValue>(request: FloScopeKind & { key_prefix: string; limit?: number; cursor?: string }): Promise<FloStatePage<T>>;
  /** Write a value. If the revision is not `if_revision`, nothing is written and `ok` is false. */
  put<T>(request: FloScopeKind & FloWrite & { key: string; value: T }): Promise<FloStateWriteResult<T>>;
  /** Merge into a value (RFC 7386): nested objects merge, `null` removes. */
  patch<T = FloJsonValue>(request: FloScopeKind & FloWrite & { key: string; patch: object }): Promise<FloStateWriteResult<T>>;
  /** Append an item to a list. A missing list is created. */
  append<I>(request: FloScopeKind & FloWrite & { key: string; item: I }): Promise<FloStateWriteResult<I[]>>;
  /** Remove a value. */
  delete(request: FloScopeKind & { key: string; if_revision?: string | null }): Promise<{ ok: boolean; conflict_revision?: string }>;
}

/** The task that the call belongs to. */
interface FloTask {
  /** Read a value that all tools of the task share. No binding is needed. */
  getState<T = FloJsonValue>(request: { key: string }): Promise<T | null>;
  /** Write a value that all tools of the task share. */
  putState<T>(request: FloWrite & { key: string; value: T }): Promise<FloStateWriteResult<T>>;
  /** Read a value of one tool in the task: of this tool, or of `tool_id`. */
  getToolState<T = FloJsonValue>(request: { key: string; tool_id?: string }): Promise<T | null>;
  /** Write a value of this tool in the task. */
  putToolState<T>(request: FloWrite & { key: string; value: T }): Promise<FloStateWriteResult<T>>;
  /** Get the ids of the task and the call, the number of the entry, and the newest answer. */
  getContext<T = FloTaskContext>(): Promise<T>;
  /** Get the profile for which the task runs, with its permissions. */
  getProfile(): Promise<FloProfile>;
  /** Write an event to the timeline of the task. */
  emitEvent(event: FloTaskEvent): Promise<void>;
  /** Ask the person and wait for the next message. The script does not run in the meantime. */
  waitForUserMessage<P = FloJsonValue>(request: FloWait<P>): Promise<FloWaitResult<P>>;
  /** Run work once per task, even if the script fails or is interrupted. */
  step<I, O>(request: FloStep<I>, work: (entry: FloStepEntry<I>) => O | Promise<O>): Promise<O>;
  /** Limits of `flo.task`. */
  readonly limits: { readonly maxSpawnChildren: number };
  /** Request child tasks, at most `maxSpawnChildren` at once, all or none. They are cancelled if this task ends first. */
  spawnChildren(request: { children: FloChild[] }): Promise<{ batch: FloBatch; event: unknown }>;
  /** Wait until all children of a batch have ended. The script does not run in the meantime. */
  waitForBatch(request: { batch_id: string }): Promise<FloBatchResults>;
  /** Get the results of a batch whose children have all ended; otherwise it rejects. */
  getBatchResults(request: { batch_id: string }): Promise<FloBatchResults>;
  /** Run an agent in this call, without a task of its own. If it needs a person, it returns `suspended`; the same arguments later continue it. */
  runSubagent(request: FloChild): Promise<FloSubagentResult>;
  /** Request one child task. The same key in one task is the same child. */
  spawn(request: FloSpawn): Promise<{ task_id: string; key: string; status: string }>;
  /** Wait until other tasks have ended. The same key always gets the same results. */
  waitForDependencies(request: FloDependencyWait): Promise<Record<string, FloDependencyResult>>;
  /** Cancel a task and everything that it spawned. */
  cancel(request: { task_id: string }): Promise<{ task: FloJsonValue; cancelled_task_ids: string[] }>;
}

/** Files of the workspace. */
interface FloFiles {
  /** Read a file of the workspace. */
  readBytes(path: string): Promise<Uint8Array<ArrayBuffer>>;
}

/** Work that is due at times, in subjects that one task at a time leases. */
interface FloDispatcher {
  /** Add subjects: due at once, or at `next_due_at`. Subjects that exist take what is given, unless a task has a lease of them. */
  syncSubjects(request: { dispatcher_id: string; subjects: FloNewSubject[] }): Promise<{ dispatcher: FloJsonValue; subjects: FloSubject[] }>;
  /** Lease subjects that are due, at most 10 or `limit`; a lease that is over is due, too. One task at a time has a subject. */
  claimDueSubjects(request: { dispatcher_id: string; lease_ms: number; limit?: number }): Promise<{ subjects: FloSubject[] }>;
  /** Store how far the work is; with `lease_ms` the lease begins again. */
  checkpointSubject(request: FloSubjectAt & { cursor?: FloJsonValue; meta?: FloJsonValue; lease_ms?: number }): Promise<FloSubject>;
  /** End the work on a subject. It is due again at `next_due_at`, or when `syncSubjects` says so. */
  completeSubject(request: FloSubjectAt & { cursor?: FloJsonValue; meta?: FloJsonValue; next_due_at?: string }): Promise<FloSubject>;
  /** End the work with an error. It is due again at `next_due_at`, after `retry_after_ms`, or after 1 minute, 2, 4 … at most an hour. */
  failSubject(request: FloSubjectAt & { cursor?: FloJsonValue; meta?: FloJsonValue; error: FloSubjectError; next_due_at?: string; retry_after_ms?: number }): Promise<FloSubject>;
  /** Give a lease back; the subject stays due. */
  releaseSubject(request: FloSubjectAt): Promise<FloSubject>;
}

/** A browser. */
interface FloBrowser {
  /** Not available in this version */
  run(command: FloBrowserCommand): Promise<FloBrowserResult>;
  /** Not available in this version */
  startRequestCapture(matchers: FloRequestMatcher[]): Promise<{ current_url?: string; capture_id: string }>;
  /** Not available in this version */
  collectCapturedRequests(capture_id: string, options?: { timeout_ms?: number }): Promise<{ current_url?: string; captures: FloJsonValue[] }>;
  /** Not available in this version */
  stopRequestCapture(capture_id: string): Promise<{ current_url?: string; stopped: boolean }>;
  /** Not available in this version */
  exportState(): Promise<{ cookies: FloJsonValue[]; origins: FloJsonValue[] }>;
  /** Not available in this version */
  importState(state: { cookies: FloJsonValue[]; origins: FloJsonValue[] }): Promise<void>;
}

declare const flo: Flo;

declare module "flo:runtime" {
  export const callTool: Flo["callTool"];
  export const sleep: Flo["sleep"];
  export const getRuntimeConfig: Flo["getRuntimeConfig"];
  export const file: Flo["file"];
  export const ToolError: Flo["ToolError"];
  export const FloError: Flo["FloError"];
  export const time: Flo["time"];
  export const vault: Flo["vault"];
  export const state: Flo["state"];
  export const task: Flo["task"];
  export const fs: Flo["fs"];
  export const dispatcher: Flo["dispatcher"];
  export const browser: Flo["browser"];
}
