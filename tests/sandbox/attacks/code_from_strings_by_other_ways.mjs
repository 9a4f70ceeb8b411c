// ends: success
// output: ["EvalError", "EvalError", "EvalError", "undefined", "EvalError"]
const attempt = (act) => {
  try { return String(act()); } catch (error) { return error.name; }
};
export function run() {
  return [
    attempt(() => Reflect.construct(Function, ["return 1"])()),
    attempt(() => Reflect.apply(Function, undefined, ["return 1"])()),
    attempt(() => Object.getPrototypeOf(run).constructor("return 1")()),
    attempt(() => { let ran; setTimeout("ran = 1", 0); return ran; }) === "TypeError" ? "undefined" : "ran",
    attempt(() => class extends Function {} && new (class extends Function {})("return 1")()),
  ];
}
