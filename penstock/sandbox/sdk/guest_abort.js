// AbortController and AbortSignal. They dispatch their events themselves: there is no EventTarget.
let abortNow, whenAborted;

class AbortSignal {
  #aborted = false;
  #reason;
  #waiting = [];
  #listeners = [];
  onabort = null;

  constructor(token) {
    if (token !== RUNTIME_ONLY) throw new TypeError("an AbortSignal comes from an AbortController");
  }

  static {
    abortNow = (signal, reason) => {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason === undefined ? new DOMException("this was aborted", "AbortError") : reason;
      signal.#waiting.splice(0).forEach((callback) => callback(signal.#reason));
      signal.#dispatch();
    };
    whenAborted = (signal, callback) => {
      if (signal.#aborted) callback(signal.#reason);
      else signal.#waiting.push(callback);
    };
  }

  static abort(reason) {
    const signal = new AbortSignal(RUNTIME_ONLY);
    abortNow(signal, reason);
    return signal;
  }

  static timeout(wait) {
    const signal = new AbortSignal(RUNTIME_ONLY);
    // Idle: a script that waits for a person is suspended although this timer is open.
    const passed = ask("timer", { ms: integer(wait, "AbortSignal.timeout: the time", 0, 3600000), idle: true });
    then(passed, () => abortNow(signal, new DOMException("the time is up", "TimeoutError")));
    return signal;
  }

  static any(signals) {
    const signal = new AbortSignal(RUNTIME_ONLY);
    for (const each of signals) {
      mustHold(each instanceof AbortSignal, "AbortSignal.any takes AbortSignals");
      whenAborted(each, (reason) => abortNow(signal, reason));
    }
    return signal;
  }

  get aborted() {
    return this.#aborted;
  }

  get reason() {
    return this.#reason;
  }

  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }

  addEventListener(type, listener, options) {
    if (type !== "abort" || !isObject(listener)) return;
    if (this.#listeners.some((each) => each.listener === listener)) return;
    this.#listeners.push({ listener, once: Boolean(options?.once) });
  }

  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((each) => type !== "abort" || each.listener !== listener);
  }

  #dispatch() {
    const event = { type: "abort", target: this, currentTarget: this };
    const called = this.#listeners;
    this.#listeners = called.filter(({ once }) => !once);
    // Errors of listeners are dropped: one listener must not prevent the calls of the others.
    const tell = (listener) => {
      const outcome = new Promise((resolve) => resolve(typeof listener === "function" ? listener.call(this, event) : listener.handleEvent?.(event)));
      then(outcome, () => {});
    };
    if (typeof this.onabort === "function") tell(this.onabort);
    called.forEach(({ listener }) => tell(listener));
  }
}

class AbortController {
  #signal = new AbortSignal(RUNTIME_ONLY);

  get signal() {
    return this.#signal;
  }

  abort(reason) {
    abortNow(this.#signal, reason);
  }
}

expose("AbortController", AbortController);
expose("AbortSignal", AbortSignal);
