// The engine inside a Deno process: it runs one script, then the process ends. It reads frames from
// stdin and writes frames to stdout; it has no other permission. Scripts are never modules of Deno
// itself, because Deno reads files for imports; they are modules of a separate realm.
import { setImmediate } from "node:timers";
import vm from "node:vm";

const main = (vm, setImmediate) => {
  const { stdin, stdout } = Deno;
  const isDebugged = Deno.args[0] === "debug";
  const encoder = new TextEncoder();
  const readers = { fatal: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }), "": new TextDecoder("utf-8", { ignoreBOM: true }) };
  const toText = (bytes) => readers[""].decode(bytes);

  // ---- frames: the number of parts, their sizes, the parts; the first part is the kind

  let unread = new Uint8Array(0);
  const waiting = [];
  const chunk = new Uint8Array(65536);

  function write(parts) {
    const head = new Uint32Array(1 + parts.length);
    head[0] = parts.length;
    let size = head.byteLength;
    for (let at = 0; at < parts.length; at++) size += head[at + 1] = parts[at].length;
    const frame = new Uint8Array(size);
    frame.set(new Uint8Array(head.buffer));
    let filled = head.byteLength;
    for (const part of parts) {
      frame.set(part, filled);
      filled += part.length;
    }
    for (let sent = 0; sent < size; ) sent += stdout.writeSync(frame.subarray(sent));
  }

  const send = (kind, ...parts) => write([encoder.encode(kind), ...parts]);

  function takeFrame() {
    if (unread.length < 4) return undefined;
    const view = new DataView(unread.buffer, unread.byteOffset, unread.length);
    const count = view.getUint32(0, true);
    if (unread.length < 4 + 4 * count) return undefined;
    const sizes = Array.from({ length: count }, (_, at) => view.getUint32(4 + 4 * at, true));
    let at = 4 + 4 * count;
    if (unread.length < sizes.reduce((sum, size) => sum + size, at)) return undefined;
    const parts = sizes.map((size) => unread.slice(at, (at += size)));
    unread = unread.subarray(at);
    return { kind: toText(parts[0]), parts: parts.slice(1) };
  }

  function keep(count) {
    if (count === null) endProcess(0);
    const more = new Uint8Array(unread.length + count);
    more.set(unread);
    more.set(chunk.subarray(0, count), unread.length);
    unread = more;
  }

  function readNow() {
    for (;;) {
      const frame = waiting.shift() ?? takeFrame();
      if (frame !== undefined) return frame;
      keep(stdin.readSync(chunk));
    }
  }

  async function readLater() {
    for (;;) {
      const frame = waiting.shift() ?? takeFrame();
      if (frame !== undefined) return frame;
      keep(await stdin.read(chunk));
    }
  }

  const endProcess = Deno.exit;

  // ---- functions of the outer realm that the realm of scripts may call

  let nowMs = 0;
  let hasAsked = false;
  let taken = [];
  const lengthOf = (bytes) => {
    taken = [bytes];
    return bytes.length;
  };
  const { apply } = Reflect;
  const { set } = Object.getPrototypeOf(Uint8Array.prototype);
  // By index: the iterator of such a list belongs to the realm of scripts.
  const copiesOf = (buffers) => {
    const copies = [];
    for (let at = 0; at < buffers.length; at++) copies.push(new Uint8Array(buffers[at]));
    return copies;
  };
  const UNWANTED = ["Intl", "Temporal", "SharedArrayBuffer", "Atomics", "WebAssembly", "WeakRef", "FinalizationRegistry"];
  const outside = {
    __proto__: null,
    now: () => nowMs,
    // Not `bytes.set`: a method of that realm would receive an object of this one.
    take: (bytes) => apply(set, bytes, [taken.shift()]),
    encode: (text) => lengthOf(encoder.encode(text)),
    decode: (buffer, mode) => {
      try {
        return readers[mode].decode(new Uint8Array(buffer));
      } catch {
        return null;
      }
    },
    post: (message, attachments) => {
      hasAsked ||= message.startsWith("ask");
      send("post", encoder.encode(message), ...copiesOf(attachments));
    },
    ask: (name, text, attachments) => {
      send(name, encoder.encode(text), ...copiesOf(attachments));
      // Frames that arrived before the reply are handled later, in order.
      const passed = [];
      for (;;) {
        const frame = readNow();
        if (frame.kind === "reply") {
          waiting.unshift(...passed);
          return lengthOf(frame.parts[0]);
        }
        passed.push(frame);
      }
    },
    unwanted: (names) => (isDebugged ? names.split(",").filter((name) => !LANGUAGE.has(name)) : UNWANTED),
  };
  const LANGUAGE = new Set(
    "Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError globalThis JSON Math ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float16Array Float32Array Float64Array DataView Map BigInt Set Iterator WeakMap WeakSet Proxy Reflect decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval isFinite isNaN SuppressedError DisposableStack AsyncDisposableStack queueMicrotask atob btoa DOMException console".split(" "),
  );

  // ---- the realm of scripts and its modules

  const realm = isDebugged
    ? undefined
    : vm.createContext(vm.constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: false } });
  const evaluated = (source, options) => {
    const script = new vm.Script(source, options);
    return realm === undefined ? script.runInThisContext() : script.runInContext(realm);
  };
  let world, entry, plan;
  const modules = new Map();

  function build(worldSource, guestSource) {
    const imported = () => loaded(entry);
    const make = evaluated(guestSource, { filename: "flo:guest", importModuleDynamically: imported });
    world = evaluated(worldSource, { filename: "flo:guest" })(outside, make);
  }

  function moduleOf(name) {
    const found = modules.get(name);
    if (found !== undefined) return found;
    const made = new vm.SourceTextModule(plan[name].source, {
      identifier: name,
      context: realm,
      importModuleDynamically: (specifier) => {
        const target = named(name, specifier);
        const found = target === undefined ? Promise.reject() : loaded(target);
        return found.catch(() => Promise.reject(refused(specifier)));
      },
      initializeImportMeta: () => {},
    });
    modules.set(name, made);
    return made;
  }

  // Not `await`: it would call a `then` of that realm with functions of this one.
  const { then } = Promise.prototype;
  const ended = (promise) =>
    new Promise((resolve, reject) => {
      Object.defineProperty(promise, "constructor", { value: undefined });
      apply(then, promise, [() => resolve(), reject]);
    });

  const named = (above, specifier) => (Object.hasOwn(plan[above].imports, specifier) ? plan[above].imports[specifier] : undefined);
  const refused = (specifier) => world.problem(`import of '${specifier}' is not allowed`);

  async function loaded(name) {
    const module = moduleOf(name);
    if (module.status === "unlinked") {
      await module.link((specifier, above) => {
        const target = named(above.identifier, specifier);
        if (target === undefined) throw refused(specifier);
        return moduleOf(target);
      });
    }
    if (isDebugged && name === entry) {
      // All files of the script are under "tool:///" now: set breakpoints, then continue.
      debugger;
    }
    await ended(module.evaluate());
    return module;
  }

  // ---- unhandled rejections

  const rejected = new Map();
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    if (rejected.size < 100) rejected.set(event.promise, event.reason);
  });
  globalThis.addEventListener("rejectionhandled", (event) => rejected.delete(event.promise));

  // ---- the loop

  const jobsAreDone = () => new Promise((resolve) => setImmediate(resolve));
  let isSkipping = false, delivered = 0;

  async function deliver([head, message, ...attachments]) {
    const [kind, atMs] = toText(head).split("\n");
    if (!isSkipping) {
      nowMs = Number(atMs);
      hasAsked = false;
      taken = attachments;
      world.tell(toText(message), attachments.map((each) => each.length));
      await jobsAreDone();
      delivered += 1;
      isSkipping = hasAsked;
    }
    if (kind !== "last") return;
    send("idle", encoder.encode(`${delivered} ${rejected.size}`));
    [isSkipping, delivered] = [false, 0];
  }

  async function tellRejections() {
    const reasons = [...rejected.values()];
    rejected.clear();
    for (const reason of reasons) {
      world.tell("rejected\n0\n", [], [reason]);
      await jobsAreDone();
    }
    send("idle", encoder.encode("0 0"));
  }

  async function take({ kind, parts }) {
    if (kind === "deliver") return deliver(parts);
    if (kind === "rejections") return tellRejections();
    if (kind === "world") build(toText(parts[0]), toText(parts[1]));
    if (kind === "script") ({ entry, modules: plan } = JSON.parse(toText(parts[0])));
    send("ready");
  }

  const goOn = async () => {
    for (;;) await take(isDebugged ? await readLater() : readNow());
  };
  const unneeded = Object.getOwnPropertyNames(globalThis).filter((name) => !LANGUAGE.has(name));
  if (!isDebugged) for (const name of unneeded) delete globalThis[name];
  goOn();
};

// With a name of its own, so that no stack of a script shows the path of this file.
vm.runInThisContext(`(${main})`, { filename: "flo:runner" })(vm, setImmediate);
