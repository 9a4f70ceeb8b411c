// The global `flo`: the host calls of a script. Arguments are checked here, for good messages; the host
// checks them again, because a script can bypass these checks.
const MAX_WAIT = 3600000;
const MAX_TTL_SECONDS = 31536000;
const SCOPE_KINDS = ["profile", "session", "task", "shared"];
const NEVER_IN_NAMES = pattern(/[\\\x00-\x1F\x7F]/);
const LEVELS = ["info", "warning", "error"];

function oneOf(value, what, choices) {
  if (includes(choices, value)) return value;
  throw new TypeError(`${what} must be one of ${listed(choices, choices.length, (each) => each)}, found ${kindOf(value)}`);
}

/** Copy the members, each as JSON. An undefined member counts as absent. */
function given(source, names, of) {
  const found = create(null);
  for (let at = 0; at < names.length; at++) {
    const value = source[names[at]];
    if (value === undefined) continue;
    found[names[at]] = new JsonText(jsonText(value, `${of}: "${names[at]}"`));
  }
  return found;
}

const CALL_MEMBERS = ["tool_id", "input", "wait"];

function callTool(request) {
  const { tool_id, input = {}, wait = true } = members(request, "flo.callTool", CALL_MEMBERS);
  text(tool_id, 'flo.callTool: "tool_id"');
  if (typeof wait !== "boolean") mustHold(false, `flo.callTool: "wait" must be true or false, found ${kindOf(wait)}`);
  const inputText = jsonText(input, 'flo.callTool: "input"');
  return askSpelled("callTool", `{"tool_id":${toJson(tool_id)},"input":${inputText},"wait":${wait}}`, NEVER_REFUSED);
}

function sleep(ms) {
  const holds = isFiniteNumber(ms) && ms >= 0 && ms <= MAX_WAIT;
  mustHold(holds, `flo.sleep takes milliseconds from 0 to ${MAX_WAIT}, found ${kindOf(ms)}`);
  return ask("sleep", { ms }, READ_NOTHING);
}

const nothing = () => undefined;
const READ_NOTHING = { __proto__: null, read: nothing };

function getRuntimeConfig(key) {
  const trimmed = trim(text(key, "flo.getRuntimeConfig: the key"));
  mustHold(trimmed !== "", "flo.getRuntimeConfig: the key must not be empty");
  return ask("getRuntimeConfig", { key: trimmed }, { __proto__: null, read: (value) => (value === null ? undefined : value) });
}

function formatUnixTimestamp(seconds, format, timezone = "UTC") {
  mustHold(isSafeInteger(seconds), `flo.time.formatUnixTimestamp: the seconds must be an integer, found ${kindOf(seconds)}`);
  text(format, "flo.time.formatUnixTimestamp: the format");
  text(timezone, "flo.time.formatUnixTimestamp: the timezone");
  return answerNow("time.formatUnixTimestamp", { seconds, format, timezone });
}

// ---- vault

let placeholderOf;

/** A secret that a script can pass on but not read: its text is a placeholder. */
class FloSecret {
  #placeholder;

  constructor(token, placeholder) {
    if (token !== RUNTIME_ONLY) throw new TypeError("a FloSecret comes from flo.vault.handle");
    this.#placeholder = placeholder;
    freeze(this);
  }

  static {
    placeholderOf = (secret) => secret.#placeholder;
  }

  toString() {
    return this.#placeholder;
  }

  toJSON() {
    return this.#placeholder;
  }
}
freeze(FloSecret.prototype);
freeze(FloSecret);

function vaultRequest(request, of) {
  const { scope, scope_id, key } = members(request, of, ["scope", "scope_id", "key"]);
  oneOf(scope, `${of}: "scope"`, ["profile", "shared"]);
  text(key, `${of}: "key"`);
  if (scope === "profile") {
    mustHold(scope_id === undefined, `${of}: "scope_id" is only for the scope shared`);
    return { scope, key };
  }
  return { scope, scope_id: text(scope_id, `${of}: "scope_id"`), key };
}

// ---- state

const STATE_MEMBERS = {
  __proto__: null,
  get: ["scope_kind", "key"],
  list: ["scope_kind", "key_prefix", "limit", "cursor"],
  put: ["scope_kind", "key", "value", "ttl_seconds", "if_revision"],
  patch: ["scope_kind", "key", "patch", "ttl_seconds", "if_revision"],
  append: ["scope_kind", "key", "item", "ttl_seconds", "if_revision"],
  delete: ["scope_kind", "key", "if_revision"],
};

function stateRequest(request, name, checks) {
  const of = `flo.state.${name}`;
  mustHold(members(request, of).scope_id === undefined, "flo.state does not accept scope_id; declare it in the manifest");
  const asked_ = members(request, of, STATE_MEMBERS[name]);
  oneOf(asked_.scope_kind, `${of}: "scope_kind"`, SCOPE_KINDS);
  return { scope_kind: asked_.scope_kind, ...checks(asked_, of) };
}

function keyOf(request, of) {
  return { key: text(request.key, `${of}: "key"`) };
}

/** Check the options of a write: its lifetime, and the revision that it replaces. */
function writeOf(request, of) {
  const found = create(null);
  const { ttl_seconds, if_revision } = request;
  if (ttl_seconds !== undefined) found.ttl_seconds = integer(ttl_seconds, `${of}: "ttl_seconds"`, 1, MAX_TTL_SECONDS);
  if (if_revision === undefined) return found;
  mustHold(if_revision === null || typeof if_revision === "string", `${of}: "if_revision" must be a string or null, found ${kindOf(if_revision)}`);
  found.if_revision = if_revision;
  return found;
}

function requiredJson(request, name, of) {
  return { [name]: new JsonText(jsonText(request[name], `${of}: "${name}"`)) };
}

function writing(name, member, check = nothing) {
  return asking((request) => ask(`state.${name}`, stateRequest(request, name, (asked_, of) => {
    check(asked_, of);
    return { ...keyOf(asked_, of), ...requiredJson(asked_, member, of), ...writeOf(asked_, of) };
  })));
}

function checkPatch({ patch }, of) {
  mustHold(isObject(patch) && !isArray(patch), `${of}: "patch" must be an object, found ${kindOf(patch)}`);
}

function listOf(request, of) {
  const { key_prefix, limit = 100, cursor } = request;
  const found = { key_prefix: text(key_prefix, `${of}: "key_prefix"`, { __proto__: null, empty: true }), limit: integer(limit, `${of}: "limit"`, 1, 1000) };
  return cursor === undefined ? found : { ...found, cursor: text(cursor, `${of}: "cursor"`) };
}

function deletionOf(request, of) {
  const { if_revision } = writeOf({ __proto__: null, if_revision: request.if_revision }, of);
  return if_revision === undefined ? keyOf(request, of) : { ...keyOf(request, of), if_revision };
}

// ---- workspace

function checkUri(path, of) {
  text(path, `${of}: the path`);
  const rest = slice(path, 0, 7) === "task://" ? slice(path, 7) : slice(path, 0, 10) === "session://" ? slice(path, 10) : null;
  mustHold(rest !== null, `${of}: the path must begin with task:// or session://, found ${kindOf(path)}`);
  const holds = areNames(rest) && sizeOf(encodeUtf8(wellFormed(path))) <= 512;
  mustHold(holds, `${of}: ${kindOf(path)} is not a path of the workspace: names with "/" between, no "." or "..", at most 32 of them and 512 bytes`);
  return normalized(path, "NFC");
}

/** Whether a path has at most 32 names with "/" between them; an empty one is the root. */
function areNames(rest) {
  if (rest === "") return true;
  let from = 0;
  for (let count = 1; count <= 32; count++) {
    const end = indexOf(rest, "/", from);
    const name = slice(rest, from, end < 0 ? rest.length : end);
    if (name === "" || name === "." || name === ".." || matches(NEVER_IN_NAMES, name)) return false;
    if (end < 0) return true;
    from = end + 1;
  }
  return false;
}


function fileOf(path, options = {}) {
  const uri = checkUri(path, "flo.file");
  const { name = uri.slice(uri.lastIndexOf("/") + 1), type, lastModified } = members(options, "flo.file: the options");
  return new File([], text(name, 'flo.file: "name"'), { type, lastModified }, { token: RUNTIME_ONLY, path: uri });
}

// ---- not available in this version

function later(name) {
  return () => reject(runtimeError("NOT_AVAILABLE", `flo.${name} is not available in this version`));
}

function allLater(namespace, names) {
  const found = {};
  for (const name of names) found[name] = later(`${namespace}.${name}`);
  return found;
}
