// The last part: publishes `flo`, and removes globals that scripts must not have.
const BROWSER = ["run", "startRequestCapture", "collectCapturedRequests", "stopRequestCapture", "exportState", "importState"];

const floOfScripts = sealed({
  __proto__: null,
  callTool: asking(callTool),
  sleep: asking(sleep),
  getRuntimeConfig: asking(getRuntimeConfig),
  file: (path, options) => fileOf(path, options),
  time: sealed({ __proto__: null, formatUnixTimestamp: (...asked_) => apply(formatUnixTimestamp, undefined, asked_) }),
  vault: sealed({
    __proto__: null,
    get: asking((request) => ask("vault.get", vaultRequest(request, "flo.vault.get"))),
    handle: asking((request) => ask("vault.handle", vaultRequest(request, "flo.vault.handle"), {
      __proto__: null,
      read: ({ placeholder }) => new FloSecret(RUNTIME_ONLY, placeholder),
    })),
  }),
  state: sealed({
    __proto__: null,
    get: asking((request) => ask("state.get", stateRequest(request, "get", keyOf))),
    list: asking((request) => ask("state.list", stateRequest(request, "list", listOf))),
    put: writing("put", "value"),
    patch: writing("patch", "patch", checkPatch),
    append: writing("append", "item"),
    delete: asking((request) => ask("state.delete", stateRequest(request, "delete", deletionOf))),
  }),
  task: sealed({
    __proto__: null,
    getState: asking((request) => ask("task.getState", taskKey(request, "flo.task.getState"))),
    putState: asking((request) => ask("task.putState", putOf(request, "flo.task.putState"))),
    getToolState: asking(getToolState),
    putToolState: asking(putToolState),
    getContext: asking(() => ask("task.getContext", {})),
    getProfile: asking(() => ask("task.getProfile", {})),
    emitEvent: asking(emitEvent),
    waitForUserMessage: asking(waitForUserMessage),
    step: (request, work) => step(request, work),
    spawnChildren: childCall("spawnChildren", ["children"]),
    waitForBatch: childCall("waitForBatch", ["batch_id"]),
    getBatchResults: childCall("getBatchResults", ["batch_id"]),
    runSubagent: childCall("runSubagent", WORKER_MEMBERS),
    spawn: childCall("spawn", SPAWN_MEMBERS),
    waitForDependencies: childCall("waitForDependencies", ["key", "dependencies", "condition", "failure_policy"]),
    cancel: childCall("cancel", ["task_id"]),
    limits: freeze({ __proto__: null, maxSpawnChildren: 32 }),
  }),
  fs: sealed({
    __proto__: null,
    readBytes: asking((path) => ask("fs.readBytes", { path: checkUri(path, "flo.fs.readBytes") }, {
      __proto__: null,
      read: ({ attachment }, attachments) => attachments[attachment],
    })),
  }),
  dispatcher: sealed({
    __proto__: null,
    syncSubjects: dispatcherCall("syncSubjects", ["subjects"]),
    claimDueSubjects: dispatcherCall("claimDueSubjects", ["lease_ms", "limit"]),
    checkpointSubject: dispatcherCall("checkpointSubject", [...LEASED, "cursor", "meta", "lease_ms"]),
    completeSubject: dispatcherCall("completeSubject", [...LEASED, "cursor", "meta", "next_due_at"]),
    failSubject: dispatcherCall("failSubject", [...LEASED, "cursor", "meta", "error", "next_due_at", "retry_after_ms"]),
    releaseSubject: dispatcherCall("releaseSubject", LEASED),
  }),
  browser: sealed({ __proto__: null, ...allLater("browser", BROWSER) }),
  ToolError,
  FloError,
});
exposeForGood("flo", floOfScripts);

// WeakRef and FinalizationRegistry depend on garbage collection, which does not repeat in a replay. The
// other globals exist in some engines only.
for (const name of ["WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics", "WebAssembly", "Intl"]) {
  delete globalThis[name];
}

// No code from strings. `Function` remains, for `instanceof`.
const refuseCode = function () {
  throw new EvalError("code from strings is not allowed");
};
const KINDS_OF_FUNCTIONS = [function () {}, async () => {}, function* () {}, async function* () {}];
for (const each of KINDS_OF_FUNCTIONS) {
  defineProperty(getPrototypeOf(each), "constructor", { value: refuseCode, writable: false, configurable: false });
}
const FunctionOfScripts = new Proxy(Function, { apply: refuseCode, construct: refuseCode });
exposeForGood("eval", refuseCode);
exposeForGood("Function", FunctionOfScripts);
// A script must not format stacks: its function would run inside the guest sources.
defineProperty(Error, "prepareStackTrace", { value: undefined, writable: false, configurable: false });
defineProperty(Error, "stackTraceLimit", { value: 20, writable: false, configurable: false });
// QuickJS calls it for template literals, also for those of the guest sources.
defineProperty(String.prototype, "concat", { writable: false, configurable: false });
