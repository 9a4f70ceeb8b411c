// Asking the host. Every request has a number; the answer comes back under it, through `deliver`.
const asked = create(null);
let lastNumber = 0;
let hostCalls = 0;
const NO_OPTIONS = create(null);
// For what settles with a value whatever becomes of it: to note who asked costs as much as to ask.
const NEVER_REFUSED = freeze({ __proto__: null, isNeverRefused: true });

/**
 * Ask the host, and return a promise of its value.
 *
 * `attachments` are ArrayBuffers that the arguments refer to by place; `read` makes the value that the
 * script sees out of the JSON and the attachments that came.
 */
function ask(name, given, options = NO_OPTIONS) {
  return askSpelled(name, toJson(given), options);
}

function askSpelled(name, spelled, { attachments, read, signal, isNeverRefused }) {
  checkSize(spelled, name);
  if (++hostCalls > limits.hostCalls) {
    throw runtimeError("BUDGET_EXCEEDED", `the script made more than ${limits.hostCalls} host calls`, false);
  }
  const number = ++lastNumber;
  const stack = isNeverRefused ? undefined : new Error().stack;
  const promise = new PromiseOfRuntime((resolve, refuse) => {
    asked[number] = { __proto__: null, resolve, refuse, read, stack };
  });
  const message = `ask\n${number}\n${name}\n${spelled}`;
  if (attachments === undefined) say(message);
  else sayWith(message, attachments);
  if (signal !== undefined) whenAborted(signal, (reason) => withdraw(number, reason));
  return promise;
}

// To cross costs more than to ask, so what is asked together crosses together: when the jobs that are
// waiting now have run, or before anything that cannot wait. JSON has no NUL, so that is the border.
const LONGEST_TOGETHER = 65536;
let unsaid = "";
const settledPromise = PromiseOfRuntime.resolve();

function say(message) {
  if (unsaid.length + message.length > LONGEST_TOGETHER) {
    sayNow(message);
  } else if (unsaid === "") {
    unsaid = message;
    then(settledPromise, flush);
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

function deliver(number, ok, spelled, attachments) {
  const call = asked[number];
  if (call === undefined) return;
  delete asked[number];
  const value = parseJson(spelled);
  if (!ok) return call.refuse(refusal(value, call.stack));
  try {
    call.resolve(call.read === undefined ? value : call.read(value, attachments));
  } catch (error) {
    call.refuse(error);
  }
}

/** Ask for what the host knows at once. */
function answerNow(name, given) {
  const { value, refusal: refused } = parseJson(answer(name, toJson(given)));
  if (refused !== undefined) throw refusal(refused);
  return value;
}

function checkSize(spelled, name) {
  // A character is at most three bytes, so that most texts need not be measured.
  if (spelled.length * 3 <= limits.messageBytes) return;
  const size = spelled.length > limits.messageBytes ? spelled.length : encodeUtf8(spelled).length;
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
  for (let at = 0; at < rest.length; at++) all[at + 1] = rest[at];
  return all;
}
