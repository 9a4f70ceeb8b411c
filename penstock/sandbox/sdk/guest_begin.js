// What the runtime leans on, taken before any script can replace it. A script may patch JSON, Promise
// or Object.prototype as it likes: it then fools itself, and not what stands between it and its host.
// So what crosses to the host is put together without methods, iterators and prototypes of the script.
const {
  Array, ArrayBuffer, BigInt, Boolean, DataView, Date, DOMException, Error, EvalError, Function, JSON, Map, Math,
  Number, Object, Promise, Proxy, RangeError, ReferenceError, Reflect, RegExp, Set, String, Symbol, SyntaxError,
  TypeError, URIError, Uint8Array, WeakMap, WeakSet, parseFloat, parseInt,
} = globalThis;
const { parse: parseJson, stringify: toJson } = JSON;
const { apply, ownKeys } = Reflect;
const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, keys } = Object;
const { isArray } = Array;
const { isInteger, isFinite: isFiniteNumber, isSafeInteger } = Number;
const PromiseOfRuntime = Promise;
const PROMISES = Promise.prototype;
const reject = Promise.reject.bind(Promise);
const { call: callOfFunction } = Function.prototype;
// Bound, not `(self, ...given) => apply(…)`: that would make an array and a frame at each call.
const uncurried = (method) => callOfFunction.bind(method);
const slice = uncurried(String.prototype.slice);
const indexOf = uncurried(String.prototype.indexOf);
const trim = uncurried(String.prototype.trim);
const wellFormed = uncurried(String.prototype.toWellFormed);
const lowerCase = uncurried(String.prototype.toLowerCase);
const upperCase = uncurried(String.prototype.toUpperCase);
const normalized = uncurried(String.prototype.normalize);
const charCodeAt = uncurried(String.prototype.charCodeAt);
const thenOfPromise = uncurried(Promise.prototype.then);
const testOfPattern = uncurried(RegExp.prototype.test);
const { exec: execOfPattern } = RegExp.prototype;
const hasOwn = Object.hasOwn;
const now = Date.now;

// Filled by `run`: the snapshot is taken before, and everything of one call comes with its input.
const limits = create(null);
const NO_OPTIONS = freeze(create(null));
let begunAt = 0;

/** Define a property as it is said: a literal has a prototype, which a script may have given a `get`. */
function define(object, name, property) {
  return defineProperty(object, name, { __proto__: null, ...property });
}

/** Go on when a promise of the runtime's own settles: no script decides what kind of promise that makes. */
function then(promise, next, failed) {
  define(promise, "constructor", { value: undefined, configurable: true });
  return thenOfPromise(promise, next, failed);
}

/** Make a pattern that matches as it was written. */
function pattern(made) {
  return define(made, "exec", { value: execOfPattern });
}

function matches(made, text) {
  return testOfPattern(made, text);
}

/** Add an item to a list: `push` would ask the setters of all arrays. */
function append(list, item) {
  define(list, list.length, { value: item, writable: true, enumerable: true, configurable: true });
}

function includes(list, item) {
  for (let at = 0; at < list.length; at++) if (list[at] === item) return true;
  return false;
}

/** Put a name into the world of scripts, where it stays what it is. */
function exposeForGood(name, value) {
  defineProperty(globalThis, name, { value, writable: false, enumerable: false, configurable: false });
}

/** Put a name into the world of scripts, as browsers do: a script may replace it for itself. */
function expose(name, value) {
  defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/** Freeze an object of functions, the functions and all. */
function sealed(members) {
  for (const name in members) {
    const member = members[name];
    if (typeof member === "function") {
      defineProperty(member, "name", { value: name });
      if (member.prototype) freeze(member.prototype);
    }
    freeze(member);
  }
  return freeze(members);
}
