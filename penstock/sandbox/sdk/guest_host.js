// Host calls. Every call has a number, under which `deliver` settles it.
const asked = create(null);
let lastNumber = 0;
let hostCalls = 0;
// For calls that never reject: capturing the stack of the caller costs as much as the call.
const NEVER_REFUSED = freeze({ __proto__: null, isNeverRefused: true });

/**
 * Make a host call, and return a promise of its result.
 *
 * `attachments` are ArrayBuffers that the arguments refer to by index. `read` converts the JSON and the
 * attachments of the result to the value that the script sees.
 */
function ask(name, given, options = NO_OPTIONS) {
  return askSpelled(name, spelled(given), options);
}

function askSpelled(name, text, { attachments, read, signal, isNeverRefused }) {
  checkSize(text, name);
  if (++hostCalls > limits.hostCalls) {
    throw runtimeError("BUDGET_EXCEEDED", `the script made more than ${limits.hostCalls} host calls`, false);
  }
  const number = ++lastNumber;
  const stack = isNeverRefused ? undefined : new Error().stack;
  const promise = new PromiseOfRuntime((resolve, refuse) => {
    asked[number] = { __proto__: null, resolve, refuse, read, stack };
  });
  const message = `ask\n${number}\n${name}\n${text}`;
  if (attachments === undefined) say(message);
  else sayWith(message, attachments);
  if (signal !== undefined) whenAborted(signal, (reason) => withdraw(number, reason));
  return promise;
}

// Crossing to the host costs more than the call, so calls are sent in batches: when the pending jobs
// have run, or before a message that cannot wait. JSON contains no NUL, so NUL separates them.
const MAX_BATCH_CHARS = 65536;
let unsaid = "";
const settledPromise = define(PromiseOfRuntime.resolve(), "constructor", { value: undefined });

function say(message) {
  if (unsaid.length + message.length > MAX_BATCH_CHARS) {
    sayNow(message);
  } else if (unsaid === "") {
    unsaid = message;
    thenOfPromise(settledPromise, flush);
  } else {
    unsaid += `\0${message}`;
  }
}

function flush() {
  if (unsaid === "") return;
  const message = unsaid;
  unsaid = "";
  post(message);
}

/** Send a message now, after all calls that wait to be sent. */
function sayWith(message, attachments) {
  flush();
  apply(post, undefined, withFirst(message, attachments));
}

function sayNow(message) {
  flush();
  post(message);
}

/** Drop a host call: its promise rejects now, and the host may cancel it. */
function withdraw(number, reason) {
  const call = asked[number];
  if (call === undefined) return;
  delete asked[number];
  say(`drop\n${number}\n`);
  call.refuse(reason);
}

function deliver(number, ok, text, attachments) {
  const call = asked[number];
  if (call === undefined) return;
  delete asked[number];
  const value = parseJson(text);
  if (!ok) return call.refuse(refusal(value, call.stack));
  try {
    call.resolve(call.read === undefined ? value : call.read(value, attachments));
  } catch (error) {
    call.refuse(error);
  }
}

/** Make a synchronous host call. */
function answerNow(name, given) {
  const found = parseJson(answer(name, spelled(given)));
  if (hasOwn(found, "refusal")) throw refusal(found.refusal);
  return found.value;
}

function checkSize(text, name) {
  // A UTF-16 unit has at most three bytes of UTF-8, so most texts need not be measured.
  if (text.length * 3 <= limits.messageBytes) return;
  const size = text.length > limits.messageBytes ? text.length : sizeOf(encodeUtf8(text));
  const message = `the arguments of ${name} have over ${limits.messageBytes} bytes as JSON`;
  mustHold(size <= limits.messageBytes, message);
}

/** Wrap a function so that errors in its arguments reject instead of throwing. */
function asking(ask_) {
  return (...given) => {
    try {
      return apply(ask_, undefined, given);
    } catch (error) {
      return reject(error);
    }
  };
}

// Not `[first, ...rest]`: spreading uses the iterator of arrays, which a script may have replaced.
function withFirst(first, rest) {
  const all = [first];
  for (let at = 0; at < rest.length; at++) append(all, rest[at]);
  return all;
}
