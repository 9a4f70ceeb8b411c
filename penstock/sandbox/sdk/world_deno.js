// Makes the realm of V8 equal to the one that QuickJS gives to scripts. It runs in the realm of scripts
// before all other code. `outside` belongs to another realm, of which scripts must see no object: only
// texts and numbers cross, bytes are copied, and errors are created again here.
(outside, make) => {
  "use strict";
  const { apply, construct } = Reflect;
  const { defineProperty, getOwnPropertyNames } = Object;
  const Bytes = Uint8Array, TooDeep = RangeError, TypeProblem = TypeError;
  const { then: thenOfPromise } = Promise.prototype;
  // Without an own `constructor`, `then` would use the one of Promise.prototype.
  const settled = defineProperty(Promise.resolve(), "constructor", { value: undefined });
  const later = (next) => apply(thenOfPromise, settled, [next]);
  const append = (list, value) => {
    defineProperty(list, list.length, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  };

  /** Call a function outside. Its only possible error is an exhausted stack. */
  const outsideDo = (name, one, two, three) => {
    try {
      return outside[name](one, two, three);
    } catch {
      throw new TooDeep("Maximum call stack size exceeded");
    }
  };
  const filled = (size) => {
    const bytes = new Bytes(size);
    outsideDo("take", bytes);
    return bytes;
  };

  // The clock of the call. Dates are still those of V8, so that `instanceof Date` holds.
  const DateOfEngine = Date;
  const now = () => outsideDo("now");
  const { toString: longText, toTimeString: longTime } = DateOfEngine.prototype;
  // Without the name of the time zone, which depends on the locale.
  const unnamed = (text) => text.replace(/ \(.*\)$/, "");
  const dateText = function () { return unnamed(apply(longText, this, [])); };
  function DateOfScripts(...given) {
    if (new.target === undefined) return apply(dateText, new DateOfEngine(now()), []);
    return construct(DateOfEngine, given.length === 0 ? [now()] : given, new.target);
  }
  const method = (owner, name, value) => {
    defineProperty(value, "name", { value: name });
    defineProperty(owner, name, { value, writable: true, enumerable: false, configurable: true });
  };
  defineProperty(DateOfScripts, "name", { value: "Date" });
  defineProperty(DateOfScripts, "length", { value: 7 });
  defineProperty(DateOfScripts, "prototype", { value: DateOfEngine.prototype, writable: false });
  method(DateOfScripts, "now", () => now());
  method(DateOfScripts, "parse", DateOfEngine.parse);
  method(DateOfScripts, "UTC", DateOfEngine.UTC);
  defineProperty(DateOfEngine.prototype, "constructor", { value: DateOfScripts });
  defineProperty(globalThis, "Date", { value: DateOfScripts });
  delete DateOfEngine.prototype.toTemporalInstant;

  // Dates, numbers and sorting do not depend on the locale of the machine.
  const two = (number) => (number < 10 ? `0${number}` : `${number}`);
  const shown = (date, parts) => {
    const when = new DateOfEngine(apply(DateOfEngine.prototype.getTime, date, []));
    if (when.getTime() !== when.getTime()) return "Invalid Date";
    const year = when.getFullYear();
    const day = `${two(when.getMonth() + 1)}/${two(when.getDate())}/${year < 0 ? "-" : ""}${`${Math.abs(year)}`.padStart(4, "0")}`;
    const hour = when.getHours();
    const time = `${two(hour % 12 || 12)}:${two(when.getMinutes())}:${two(when.getSeconds())} ${hour < 12 ? "AM" : "PM"}`;
    return parts === "day" ? day : parts === "time" ? time : `${day}, ${time}`;
  };
  method(DateOfEngine.prototype, "toString", dateText);
  method(DateOfEngine.prototype, "toTimeString", function () { return unnamed(apply(longTime, this, [])); });
  method(DateOfEngine.prototype, "toLocaleString", function () { return shown(this); });
  method(DateOfEngine.prototype, "toLocaleDateString", function () { return shown(this, "day"); });
  method(DateOfEngine.prototype, "toLocaleTimeString", function () { return shown(this, "time"); });
  const { toString: numberText } = Number.prototype;
  const { toString: bigText } = BigInt.prototype;
  method(Number.prototype, "toLocaleString", function () { return apply(numberText, this, []); });
  method(BigInt.prototype, "toLocaleString", function () { return apply(bigText, this, []); });
  const { normalize, toLowerCase, toUpperCase } = String.prototype;
  method(String.prototype, "toLocaleLowerCase", function () { return apply(toLowerCase, this, []); });
  method(String.prototype, "toLocaleUpperCase", function () { return apply(toUpperCase, this, []); });
  method(String.prototype, "localeCompare", function (other) {
    const one = [...apply(normalize, this, [])], another = [...apply(normalize, `${other}`, [])];
    for (let at = 0; at < one.length && at < another.length; at++) {
      const difference = one[at].codePointAt(0) - another[at].codePointAt(0);
      if (difference !== 0) return difference < 0 ? -1 : 1;
    }
    return one.length === another.length ? 0 : one.length < another.length ? -1 : 1;
  });

  // Globals that browsers and QuickJS have.
  const CODES = {
    __proto__: null, IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5,
    NoModificationAllowedError: 7, NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10,
    InvalidStateError: 11, SyntaxError: 12, InvalidModificationError: 13, NamespaceError: 14, InvalidAccessError: 15,
    TypeMismatchError: 17, SecurityError: 18, NetworkError: 19, AbortError: 20, URLMismatchError: 21,
    QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24, DataCloneError: 25,
  };
  class DOMException extends Error {
    #name;
    constructor(message = "", name = "Error") {
      super(message);
      this.#name = `${name}`;
    }
    get name() { return this.#name; }
    get code() { return CODES[this.#name] ?? 0; }
  }
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const odd = (message) => { throw new DOMException(message, "InvalidCharacterError"); };
  const atob = (given) => {
    const text = `${given}`.replace(/[\t\n\f\r ]/g, "");
    const plain = text.length % 4 === 0 ? text.replace(/={1,2}$/, "") : text;
    if (plain.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(plain)) odd("atob: the text is not base64");
    let found = "", bits = 0, held = 0;
    for (const letter of plain) {
      held = ((held << 6) | LETTERS.indexOf(letter)) & 0xffff;
      if ((bits += 6) >= 8) found += String.fromCharCode((held >> (bits -= 8)) & 0xff);
    }
    return found;
  };
  const btoa = (given) => {
    const text = `${given}`;
    let found = "";
    for (let at = 0; at < text.length; at += 3) {
      const [a, b, c] = [text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2)];
      if (a > 255 || b > 255 || c > 255) odd("btoa: the text has characters beyond one byte");
      found += LETTERS[a >> 2] + LETTERS[((a & 3) << 4) | (b >> 4)];
      found += b === b ? LETTERS[((b & 15) << 2) | (c >> 6)] : "=";
      found += c === c ? LETTERS[c & 63] : "=";
    }
    return found;
  };
  const queueMicrotask = (callback) => {
    if (typeof callback !== "function") throw new TypeProblem("queueMicrotask: the callback must be a function");
    later(() => { apply(callback, undefined, []); });
  };
  for (const value of [DOMException, atob, btoa, queueMicrotask]) method(globalThis, value.name, value);
  for (const name of outside.unwanted(getOwnPropertyNames(globalThis).join())) delete globalThis[name];

  const asked = (name, text, attachments) => filled(outsideDo("ask", name, text, attachments));
  const decodeUtf8 = (buffer, mode) => outsideDo("decode", buffer, mode);
  const enter = make(
    (message, ...attachments) => outsideDo("post", message, attachments),
    (name, text) => decodeUtf8(asked("answer", `${name}\n${text}`, []).buffer, ""),
    (text) => filled(outsideDo("encode", text)),
    decodeUtf8,
    (buffer, name) => asked("digest", name, [buffer]),
    (count) => asked("random", count, []),
  );
  return {
    __proto__: null,
    // In a job of its own, so that no frame of the outer realm is on the stack of the script.
    tell: (message, sizes, value) => {
      const given = [message];
      for (let at = 0; at < sizes.length; at++) append(given, filled(sizes[at]));
      if (value !== undefined) append(given, value[0]);
      later(() => apply(enter, undefined, given));
    },
    problem: (message) => new TypeProblem(message),
  };
};
