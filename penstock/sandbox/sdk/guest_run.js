// Runs the script, from its first line to its output, and receives the messages of the engine.
const MAX_MESSAGE = 2000;
const MAX_STACK = 8192;

function run(text) {
  const { entry, entrypoint, input, bounds, seed, now: startTime } = parseJson(text);
  for (const name in bounds) limits[name] = bounds[name];
  linesLeft = limits.logLines;
  bytesLeft = limits.logBytes;
  startedAt = startTime;
  seedRandom(seed);
  then(import(entry), (exports) => enter(exports, entrypoint, input), fail);
}

function enter(exports, entrypoint, input) {
  const start = exports[entrypoint];
  if (typeof start !== "function") {
    sayNow(`missing\n0\n${kindOf(start)}`);
    return;
  }
  let output;
  const started = new PromiseOfRuntime((resolve) => {
    output = start(input);
    resolve();
  });
  then(started, () => settle(output), fail);
}

/** Continue when the output is available. It may be a promise or another thenable. */
function settle(output) {
  try {
    // As `await` does: a replaced `Promise.prototype.then` is not used.
    if (isObject(output) && getPrototypeOf(output) === PROMISES) return then(output, finish, fail);
  } catch {
    // The output is not a promise, or it is frozen.
  }
  then(new PromiseOfRuntime((resolve) => resolve(output)), finish, fail);
}

function finish(output) {
  let text;
  try {
    text = toJson(output);
  } catch (error) {
    return fail(new TypeError(`the output is not JSON: ${messageOf(error)}`));
  }
  // Over the limit in any encoding: the host would refuse it.
  if (text !== undefined && text.length > limits.outputBytes) return sayNow(`large\n0\n${text.length}`);
  sayNow(`done\n0\n${text === undefined ? "null" : text}`);
}

function fail(error) {
  const kind = detailOf(error) !== undefined ? "flo" : toolErrorOf(error) !== undefined ? "tool" : "thrown";
  const detail = detailOf(error) ?? toolErrorOf(error) ?? NO_OPTIONS;
  sayNow(`fail\n0\n${spelled({ __proto__: null, ...described(error), ...detail, kind })}`);
}

const textOfAny = (value) => (typeof value === "symbol" ? textOfSymbol(value) : `${value}`);

/** Describe a thrown value. Reading each part of it may throw again. */
function described(error) {
  const part = (read, longest) => {
    try {
      const found = read();
      if (typeof found !== "string") return undefined;
      const text = wellFormed(found);
      // The mark lets the host recognise the beginning of a secret that is cut here.
      return text.length > longest ? `${slice(text, 0, longest - 1)}…` : text;
    } catch {
      return undefined;
    }
  };
  if (!isObject(error)) return { name: "Error", message: part(() => textOfAny(error), MAX_MESSAGE) ?? "", stack: "" };
  return {
    name: part(() => error.name, 200) ?? "Error",
    message: part(() => error.message, MAX_MESSAGE) ?? part(() => inspected(error), MAX_MESSAGE) ?? "something was thrown",
    stack: part(() => error.stack, MAX_STACK) ?? "",
  };
}

/** Receive a message of the engine: a line with its kind, a line with a number, and the rest. */
return (message, ...attachments) => {
  const first = indexOf(message, "\n");
  const second = indexOf(message, "\n", first + 1);
  const kind = slice(message, 0, first);
  const number = slice(message, first + 1, second);
  const rest = slice(message, second + 1);
  if (kind === "run") run(rest);
  else if (kind === "rejected") sayNow(`rejected\n0\n${described(attachments[0]).message}`);
  else deliver(+number, kind === "settle", rest, attachments);
};
