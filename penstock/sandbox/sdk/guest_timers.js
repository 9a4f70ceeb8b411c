// Timers. Each firing is a host call, so that its position among the results is recorded and is the
// same in the next entry.
const { floor, min: least } = Math;
const timers = create(null);
let lastTimer = 0;
let timersAlive = 0;

function setTimer(callback, wait, given, repeats) {
  mustHold(typeof callback === "function", `${repeats ? "setInterval" : "setTimeout"}: the callback must be a function, found ${kindOf(callback)}`);
  if (timersAlive >= limits.timers) throw new RangeError(`a script may have ${limits.timers} timers at once`);
  const number = ++lastTimer;
  timersAlive += 1;
  timers[number] = { __proto__: null, call: 0 };
  startTimer(number, callback, milliseconds(wait), given, repeats);
  return number;
}

function startTimer(number, callback, ms, given, repeats) {
  const fired = ask("timer", { ms });
  timers[number].call = lastNumber;
  then(fired, () => {
    if (timers[number] === undefined) return;
    if (repeats) startTimer(number, callback, ms, given, repeats);
    else forgetTimer(number);
    apply(callback, undefined, given);
  });
}

function clearTimer(number) {
  const timer = timers[number];
  if (timer === undefined) return;
  forgetTimer(number);
  delete asked[timer.call];
  say(`drop\n${timer.call}\n`);
}

function forgetTimer(number) {
  delete timers[number];
  timersAlive -= 1;
}

/** Convert a delay as browsers do. It is capped: no call lives long enough for a longer one. */
function milliseconds(wait) {
  const ms = Number(wait);
  return ms > 0 && ms <= 2147483647 ? least(floor(ms), MAX_WAIT) : 0;
}

expose("setTimeout", (callback, wait, ...given) => setTimer(callback, wait, given, false));
expose("setInterval", (callback, wait, ...given) => setTimer(callback, wait, given, true));
expose("clearTimeout", (number) => clearTimer(Number(number)));
expose("clearInterval", (number) => clearTimer(Number(number)));
