// flo.task: the task to which the call belongs.
const SPACE = pattern(/\s/);

const WRITE_MEMBERS = ["key", "value", "ttl_seconds", "if_revision"];

function taskKey(request, of) {
  return keyOf(members(request, of, ["key"]), of);
}

function putOf(request, of) {
  const asked_ = members(request, of, WRITE_MEMBERS);
  return { ...keyOf(asked_, of), ...requiredJson(asked_, "value", of), ...writeOf(asked_, of) };
}

function getToolState(request) {
  const of = "flo.task.getToolState";
  const { tool_id } = members(request, of, ["key", "tool_id"]);
  const key = keyOf(request, of);
  return ask("task.getToolState", tool_id === undefined ? key : { ...key, tool_id: text(tool_id, `${of}: "tool_id"`) });
}

function putToolState(request) {
  const of = "flo.task.putToolState";
  mustHold(members(request, of).tool_id === undefined, `${of}: a tool writes only its own state; leave "tool_id" out`);
  return ask("task.putToolState", putOf(request, of));
}

function emitEvent(request) {
  const of = "flo.task.emitEvent";
  const { event_type, title, message, level = "info", payload } = members(request, of, ["event_type", "title", "message", "level", "payload"]);
  text(event_type, `${of}: "event_type"`, { __proto__: null, most: 128 });
  mustHold(!matches(SPACE, event_type), `${of}: "event_type" must have no spaces`);
  if (title !== undefined) text(title, `${of}: "title"`, { __proto__: null, empty: true, most: 200 });
  if (message !== undefined) text(message, `${of}: "message"`, { __proto__: null, empty: true, most: 4000 });
  oneOf(level, `${of}: "level"`, LEVELS);
  return ask("task.emitEvent", { event_type, level, ...given({ title, message, payload }, ["title", "message", "payload"], of) }, READ_NOTHING);
}

function waitForUserMessage(request) {
  const of = "flo.task.waitForUserMessage";
  const { user_message, timeout } = members(request, of, ["user_message", "resume_payload", "resume_schema", "timeout"]);
  text(user_message, `${of}: "user_message"`);
  mustHold(trim(user_message) !== "", `${of}: "user_message" must not be empty`);
  const found = { user_message, ...given(request, ["resume_payload", "resume_schema"], of) };
  if (timeout === undefined) return ask("task.waitForUserMessage", found);
  const { seconds, resume_prompt } = members(timeout, `${of}: "timeout"`, ["seconds", "resume_prompt"]);
  integer(seconds, `${of}: "timeout.seconds"`, 1, MAX_TTL_SECONDS);
  text(resume_prompt, `${of}: "timeout.resume_prompt"`);
  return ask("task.waitForUserMessage", { ...found, timeout: { seconds, resume_prompt } });
}

// ---- child tasks: the host checks what is in the members.

const WORKER_MEMBERS = ["worker_kind", "title", "objective", "input", "selected_skill_ids"];
const SPAWN_MEMBERS = [
  "key", "title", "objective", "input", "input_schema", "output_schema", "dependencies", "dependency_condition",
  "failure_policy", "selected_skill_ids", "allowed_tools", "max_turns",
];

function childCall(name, known) {
  const of = `flo.task.${name}`;
  return asking((request) => ask(`task.${name}`, given(members(request, of, known), known, of)));
}

// ---- dispatcher: the host checks what is in the members.

const LEASED = ["subject_key", "revision"];

function dispatcherCall(name, more) {
  const of = `flo.dispatcher.${name}`;
  const known = ["dispatcher_id", ...more];
  return asking((request) => ask(`dispatcher.${name}`, given(members(request, of, known), known, of)));
}

// ---- step: work that runs once per task. The host stores its state.

let stepOpen = null;

async function step(request, work) {
  const asked_ = stepRequest(request);
  mustHold(typeof work === "function", `flo.task.step: the work must be a function, found ${kindOf(work)}`);
  mustHold(stepOpen === null, `flo.task.step: step "${stepOpen}" is still open; a step cannot stand in another, nor beside it`);
  stepOpen = asked_.key;
  try {
    return await stepWith(asked_, work);
  } finally {
    stepOpen = null;
  }
}

function stepRequest(request) {
  const of = "flo.task.step";
  const { key, version, retry } = members(request, of, ["key", "version", "input", "input_schema", "output_schema", "retry"]);
  text(key, `${of}: "key"`);
  const isVersion = (typeof version === "string" && version !== "") || (isSafeInteger(version) && version > 0);
  mustHold(isVersion, `${of}: "version" must be a string or a positive integer, found ${kindOf(version)}`);
  if (retry !== undefined) members(retry, `${of}: "retry"`, ["max_attempts", "initial_backoff_ms", "multiplier", "max_backoff_ms"]);
  const input = request.input === undefined ? null : request.input;
  return { key, version, ...given({ input, ...request, input }, ["input", "input_schema", "output_schema", "retry"], of) };
}

async function stepWith(asked_, work) {
  let state = await ask("task.step.start", asked_);
  let stack;
  const { key, version } = asked_;
  const { idempotency_key } = state;
  while (state.status === "run" || state.status === "retry") {
    if (state.status === "retry") await ask("sleep", { ms: state.wait_ms });
    const { attempt } = state;
    let settled;
    try {
      const output = await work({ input: parseJson(textOfJson(asked_.input)), attempt, idempotency_key });
      settled = { key, version, attempt, ...requiredJson({ output: output === undefined ? null : output }, "output", `the work of step "${key}"`) };
    } catch (error) {
      stack = described(error).stack;
      settled = { key, version, attempt, error: thrownParts(error) };
    }
    state = await ask("task.step.settle", settled);
  }
  if (state.status === "settled") return state.output;
  // Made from the record in the first entry, too: a later entry has no other error to throw.
  throw failureOf(state.error, stack);
}
