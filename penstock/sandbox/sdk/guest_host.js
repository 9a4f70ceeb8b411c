// Asking the host. Every request has a number; the answer comes back under it, through `deliver`.
const asked = create(null);
let lastNumber = 0;
let hostCalls = 0;
// For what settles with a value whatever becomes of it: to note who asked costs as much as to ask.
const NEVER_REFUSED = freeze({ __proto__: null, isNeverRefused: true });

/**
 * Ask the host, and return a promise of its value.
 *
 * `attachments` are ArrayBuffers that the arguments refer to by place; `read` makes the value that the
 * script sees out of the JSON and the attachments that came.
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

// To cross costs more than to ask, so what is asked together crosses together: when the jobs that are
// waiting now have run, or before anything that cannot wait. JSON has no NUL, so that is the border.
const LONGEST_TOGETHER = 65536;
let unsaid = "";
const settledPromise = define(PromiseOfRuntime.resolve(), "constructor", { value: undefined });

function say(message) {
  if (unsaid.length + message.length > LONGEST_TOGETHER) {
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

/** Say something now, with bytes or without. */
function sayWith(message, attachments) {
  flush();
  apply(post, undefined, withFirst(message, attachments));
}

function sayNow(message) {
  flush();
  post(message);
}

/** Give up a host call: the promise rejects now, and the host may stop. */
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

/** Ask for what the host knows at once. */
function answerNow(name, given) {
  const found = parseJson(answer(name, spelled(given)));
  if (hasOwn(found, "refusal")) throw refusal(found.refusal);
  return found.value;
}

function checkSize(text, name) {
  // A character is at most three bytes, so that most texts need not be measured.
  if (text.length * 3 <= limits.messageBytes) return;
  const size = text.length > limits.messageBytes ? text.length : sizeOf(encodeUtf8(text));
  const said = `the arguments of ${name} have over ${limits.messageBytes} bytes as JSON`;
  wanted(size <= limits.messageBytes, said);
}

/** Make a function of the API whose mistakes reject, as everything else it refuses does. */
function asking(ask_) {
  return (...given) => {
    try {
      return apply(ask_, undefined, given);
    } catch (error) {
      return reject(error);
    }
  };
}

// Not `[first, ...rest]`: to spread asks the iterator of arrays, which a script may have replaced.
function withFirst(first, rest) {
  const all = [first];
  for (let at = 0; at < rest.length; at++) append(all, rest[at]);
  return all;
}
