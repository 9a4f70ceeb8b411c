// The errors that scripts see. Their details are in private fields: the host receives for an uncaught
// error what was put in when it was created, even if a script changed the object.
const RUNTIME_ONLY = {};
const CODE = pattern(/^[A-Z][A-Z0-9_]{0,63}$/);
let detailOf, toolErrorOf;

class FloError extends Error {
  #detail;

  constructor(token, detail) {
    if (token !== RUNTIME_ONLY) throw new TypeError("FloError is made by the runtime; throw flo.ToolError");
    super(detail.message);
    this.#detail = freeze(toldOf(detail));
    describeOn(this, detail);
  }

  static {
    detailOf = (error) => (isObject(error) && #detail in error ? error.#detail : undefined);
  }
}

class ToolError extends Error {
  #detail;

  constructor(given) {
    const { code, message, retryable = false, continuable = true, details } = members(given, "flo.ToolError");
    mustHold(typeof code === "string" && matches(CODE, code), 'flo.ToolError: "code" must match ^[A-Z][A-Z0-9_]{0,63}$');
    mustHold(typeof message === "string", 'flo.ToolError: "message" must be a string');
    mustHold(typeof retryable === "boolean", 'flo.ToolError: "retryable" must be true or false');
    mustHold(typeof continuable === "boolean", 'flo.ToolError: "continuable" must be true or false');
    super(message);
    const detail = { __proto__: null, code, message, retryable, continuable };
    if (details !== undefined) detail.details = parseJson(jsonText(details, 'flo.ToolError: "details"'));
    if (includes(CODES_OF_RUNTIME, code)) throw new TypeError(`flo.ToolError: "code" ${code} belongs to the runtime; choose another`);
    this.#detail = freeze(toldOf(detail));
    describeOn(this, detail);
  }

  static {
    toolErrorOf = (error) => (isObject(error) && #detail in error ? error.#detail : undefined);
  }
}

// TOOL_FAILED and UPSTREAM_UNAVAILABLE are the two built-in codes that a script may use.
const CODES_OF_RUNTIME = [
  "TOOL_NOT_FOUND", "NOT_PERMITTED", "INVALID_INPUT", "INVALID_OUTPUT", "SCRIPT_ERROR", "SCRIPT_LOAD_ERROR",
  "TIMEOUT", "OUT_OF_MEMORY", "OUTPUT_TOO_LARGE", "VAULT_DENIED", "VAULT_NOT_FOUND", "STATE_DENIED",
  "EGRESS_DENIED", "NOT_AVAILABLE", "NOT_CONFIGURED", "LOOP_DETECTED", "BUDGET_EXCEEDED", "DEPTH_EXCEEDED",
  "INTERRUPTED", "REJECTED", "CANCELLED", "SUSPENDED",
];

for (const made of [FloError, ToolError]) {
  defineProperty(made.prototype, "name", { value: made.name });
  freeze(made.prototype);
  freeze(made);
}

/** Return the private details of an error, for the host. */
function toldOf(detail) {
  return detail.details === undefined ? detail : { __proto__: null, ...detail, details: new JsonText(spelled(detail.details)) };
}

function describeOn(error, detail) {
  const read = (name) => define(error, name, { value: detail[name], enumerable: true });
  read("code");
  read("retryable");
  read("continuable");
  if (detail.details !== undefined) read("details");
}

/** Create the error with which a host call rejects. */
function refusal(detail, stack) {
  const { name, message, code, retryable, continuable, details } = { __proto__: null, ...detail };
  const error =
    name === "TypeError" ? new TypeError(message)
    : name === "RangeError" ? new RangeError(message)
    : name === "AbortError" ? new DOMException(message, "AbortError")
    : new FloError(RUNTIME_ONLY, { __proto__: null, code, message, retryable, continuable, details });
  // The stack of the call is more useful than that of the delivery.
  if (stack !== undefined) define(error, "stack", { value: stack, writable: true, configurable: true });
  return error;
}

const BUILT_IN_ERRORS = freeze({
  __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
});
const DOM_ERRORS = [
  "AbortError", "DataCloneError", "InvalidCharacterError", "NotSupportedError", "QuotaExceededError", "TimeoutError",
];

/** Describe a thrown value so that `failureOf` can create an equal error in a later entry. */
function thrownParts(error) {
  const { name, message } = described(error);
  const flo = detailOf(error), told = flo ?? toolErrorOf(error);
  const parts = { __proto__: null, name, message };
  return told === undefined ? parts : { ...parts, ...told, __proto__: null, kind: flo === undefined ? "tool" : "flo" };
}

/** Create an error from its recorded parts. A class of the script becomes an Error with its name. */
function failureOf(parts, stack) {
  const { name, message, kind, code, retryable, continuable, details } = { __proto__: null, ...parts };
  const told = { __proto__: null, code, message, retryable, continuable, details };
  const error =
    kind === "flo" ? new FloError(RUNTIME_ONLY, told)
    : kind === "tool" ? new ToolError(told)
    : includes(DOM_ERRORS, name) ? new DOMException(message, name)
    : new (BUILT_IN_ERRORS[name] ?? Error)(message);
  if (error.name !== name) define(error, "name", { value: name, writable: true, configurable: true });
  if (stack) define(error, "stack", { value: stack, writable: true, configurable: true });
  return error;
}

function runtimeError(code, message, continuable = true) {
  return new FloError(RUNTIME_ONLY, { __proto__: null, code, message, retryable: false, continuable });
}

// Checks of arguments.

function isObject(value) {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function mustHold(condition, message) {
  if (!condition) throw new TypeError(message);
}

/** Check that a value is an object; with `known`, that it has no other members. */
function members(given, of, known) {
  if (!isObject(given) || isArray(given)) throw new TypeError(`${of} takes an object, found ${kindOf(given)}`);
  if (known === undefined) return given;
  const names = keys(given);
  for (let at = 0; at < names.length; at++) {
    if (!includes(known, names[at]) && given[names[at]] !== undefined) throw unknownMember(names[at], of, known);
  }
  return given;
}

function unknownMember(name, of, known) {
  const shown = name.length > 60 ? `${slice(name, 0, 59)}…` : name;
  let nearest = known[0], all = known[0];
  for (let at = 1; at < known.length; at++) {
    all += `, ${known[at]}`;
    if (distance(shown, known[at]) < distance(shown, nearest)) nearest = known[at];
  }
  const isNear = distance(shown, nearest) <= nearest.length / 2;
  return new TypeError(`${of} takes no "${shown}"; ${isNear ? `did you mean "${nearest}"?` : `it takes ${all}`}`);
}

/** Return the edit distance of two names. */
function distance(name, other) {
  let above = create(null);
  for (let at = 0; at <= other.length; at++) above[at] = at;
  for (let row = 1; row <= name.length; row++) {
    const below = { __proto__: null, 0: row };
    for (let at = 1; at <= other.length; at++) {
      const replaced = above[at - 1] + (name[row - 1] === other[at - 1] ? 0 : 1);
      const changed = above[at] < below[at - 1] ? above[at] + 1 : below[at - 1] + 1;
      below[at] = replaced < changed ? replaced : changed;
    }
    above = below;
  }
  return above[other.length];
}

function text(value, what, { empty = false, most } = NO_OPTIONS) {
  // The message is built only if it is needed: this check runs at every host call.
  if (typeof value === "string" && value.length > 0 && most === undefined) return value;
  mustHold(typeof value === "string", `${what} must be a string, found ${kindOf(value)}`);
  mustHold(empty || value.length > 0, `${what} must not be empty`);
  mustHold(most === undefined || value.length <= most, `${what} must have at most ${most} characters, found ${value.length}`);
  return value;
}

function integer(value, what, least, most) {
  const holds = isInteger(value) && value >= least && value <= most;
  mustHold(holds, `${what} must be an integer from ${least} to ${most}, found ${kindOf(value)}`);
  return value;
}

/** Return a value as JSON. Throws a TypeError for a function, a BigInt or a cycle. */
function jsonText(value, what) {
  let text;
  try {
    text = toJson(value);
  } catch (error) {
    throw new TypeError(`${what} must be JSON: ${messageOf(error)}`);
  }
  if (text !== undefined) return text;
  throw new TypeError(`${what} must be JSON, found ${kindOf(value)}`);
}

function kindOf(value) {
  if (value === null) return "null";
  if (isArray(value)) return "an array";
  switch (typeof value) {
    case "string": return value.length > 60 ? "a long string" : toJson(value);
    case "number": case "boolean": case "undefined": return `${value}`;
    case "object": return "an object";
    default: return `a ${typeof value}`;
  }
}

function messageOf(error) {
  try {
    return `${error.message}`;
  } catch {
    return "it cannot be read";
  }
}
