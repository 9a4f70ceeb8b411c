// ends: success
// output: ["EvalError", "EvalError", "EvalError", "EvalError", "EvalError", "EvalError", "EvalError", "EvalError"]
const attempt = (act) => {
  try { return String(act()); } catch (error) { return error.name; }
};
export function run() {
  return [
    attempt(() => eval("1")),
    attempt(() => (0, globalThis.eval)("1")),
    attempt(() => new Function("return 1")()),
    attempt(() => Function("return 1")()),
    attempt(() => (() => {}).constructor("return 1")()),
    attempt(() => (async () => {}).constructor("return 1")()),
    attempt(() => (function* () {}).constructor("return 1")()),
    attempt(() => (async function* () {}).constructor("return 1")()),
  ];
}
