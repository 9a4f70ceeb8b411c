// The built-ins that the guest sources use, captured before any script can replace them. A script may
// patch JSON, Promise or Object.prototype: that changes its own world, but not its messages to the host.
// Therefore messages are built without methods, iterators and prototypes that a script can reach.
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
// Bound, not `(self, ...given) => apply(…)`, which would create an array and a frame for each call.
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

// Filled by `run`: the memory image is taken before, and values of one call arrive with its input.
const limits = create(null);
const NO_OPTIONS = freeze(create(null));
let startedAt = 0;

/** Define a property. A descriptor with a prototype could inherit a `get` of the script. */
function define(object, name, property) {
  return defineProperty(object, name, { __proto__: null, ...property });
}

/** Call `next` when a promise of the guest sources settles, without the `constructor` of a script. */
function then(promise, next, failed) {
  define(promise, "constructor", { value: undefined, configurable: true });
  return thenOfPromise(promise, next, failed);
}

/** Return a pattern whose `exec` a script cannot replace. */
function pattern(made) {
  return define(made, "exec", { value: execOfPattern });
}

function matches(made, text) {
  return testOfPattern(made, text);
}

/** Add an item to a list. `push` would call setters of Array.prototype. */
function append(list, item) {
  define(list, list.length, { value: item, writable: true, enumerable: true, configurable: true });
}

function includes(list, item) {
  for (let at = 0; at < list.length; at++) if (list[at] === item) return true;
  return false;
}

/** Define a global that scripts cannot replace. */
function exposeForGood(name, value) {
  defineProperty(globalThis, name, { value, writable: false, enumerable: false, configurable: false });
}

/** Define a global that scripts can replace, as in browsers. */
function expose(name, value) {
  defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/** Freeze an object and its functions. */
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
