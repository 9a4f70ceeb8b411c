// structuredClone.
const ERRORS = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, Error];

expose("structuredClone", function structuredClone(value, { transfer = [] } = {}) {
  const seen = new Map();
  for (const buffer of transfer) {
    mustHold(buffer instanceof ArrayBuffer, "structuredClone: only an ArrayBuffer can be transferred");
    seen.set(buffer, null);
  }
  for (const buffer of seen.keys()) seen.set(buffer, buffer.transfer());
  return cloneOf(value, seen);
});

function cloneOf(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") throw notCloneable(value);
  if (!isObject(value)) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => (seen.set(value, copy), copy);
  if (isArray(value)) return cloneMembers(value, keep(new Array(value.length)), seen);
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof Boolean || value instanceof Number || value instanceof String || value instanceof BigInt) return keep(Object(value.valueOf()));
  if (value instanceof ArrayBuffer) return keep(value.slice());
  if (ArrayBuffer.isView(value)) return keep(cloneView(value, seen));
  if (value instanceof Map) return cloneMap(value, keep(new Map()), seen);
  if (value instanceof Set) return cloneSet(value, keep(new Set()), seen);
  if (value instanceof Error) return cloneError(value, keep, seen);
  if (value instanceof Blob) return keep(value);
  if (!isPlain(value)) throw notCloneable(value);
  return cloneMembers(value, keep({}), seen);
}

function cloneMembers(value, copy, seen) {
  for (const key of Object.keys(value)) {
    const copied = cloneOf(value[key], seen);
    // JSON may have this member. An assignment would set the prototype of the copy.
    if (key === "__proto__") define(copy, key, { value: copied, writable: true, enumerable: true, configurable: true });
    else copy[key] = copied;
  }
  return copy;
}

function cloneMap(value, copy, seen) {
  for (const [key, item] of [...value]) copy.set(cloneOf(key, seen), cloneOf(item, seen));
  return copy;
}

function cloneSet(value, copy, seen) {
  for (const item of [...value]) copy.add(cloneOf(item, seen));
  return copy;
}

function cloneView(value, seen) {
  const buffer = cloneOf(value.buffer, seen);
  const size = value instanceof DataView ? value.byteLength : value.length;
  return new value.constructor(buffer, value.byteOffset, size);
}

function cloneError(value, keep, seen) {
  const made = ERRORS.find((kind) => value.name === kind.name) ?? Error;
  const copy = keep(new made(value.message));
  for (const name of ["stack", "cause"]) {
    if (hasOwn(value, name)) defineProperty(copy, name, { value: cloneOf(value[name], seen), writable: true, configurable: true });
  }
  return copy;
}

/** Whether a copy of the members is a complete copy; objects with private state have none. */
function isPlain(value) {
  const others = [Promise, WeakMap, WeakSet, AbortSignal, AbortController, FormData, URL, URLSearchParams];
  return !others.some((kind) => value instanceof kind);
}

function notCloneable(value) {
  return new DOMException(`${kindOf(value)} cannot be cloned`, "DataCloneError");
}
