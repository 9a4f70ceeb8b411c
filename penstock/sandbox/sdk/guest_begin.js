// What the runtime leans on, taken before any script can replace it. A script may patch JSON, Promise
// or Object.prototype as it likes: it then fools itself, and not what stands between it and its host.
const { parse: parseJson, stringify: toJson } = JSON;
const { apply, construct } = Reflect;
const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf } = Object;
const { isArray } = Array;
const { isInteger, isFinite: isFiniteNumber, isSafeInteger } = Number;
const PromiseOfRuntime = Promise;
const reject = Promise.reject.bind(Promise);
const uncurried = (method) => (self, ...given) => apply(method, self, given);
const then = uncurried(Promise.prototype.then);
const slice = uncurried(String.prototype.slice);
const indexOf = uncurried(String.prototype.indexOf);
const trim = uncurried(String.prototype.trim);
const wellFormed = uncurried(String.prototype.toWellFormed);
const matches = uncurried(RegExp.prototype.test);
const hasOwn = Object.hasOwn;
const now = Date.now;

// Filled by `run`: the snapshot is taken before, and everything of one call comes with its input.
const limits = create(null);
let begunAt = 0;

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
