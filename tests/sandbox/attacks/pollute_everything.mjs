// ends: success
// output: {"status": "success", "output": {"seen": "look"}}
export async function run() {
  const evil = () => { throw new Error("patched"); };
  for (const name of ["resolve", "refuse", "read", "stack", "code", "then", "toJSON"]) {
    Object.defineProperty(Object.prototype, name, { get: () => undefined, set: evil, configurable: true });
  }
  JSON.stringify = JSON.parse = Promise.resolve = Promise.reject = Object.freeze = Object.create = evil;
  String.prototype.slice = String.prototype.indexOf = Function.prototype.call = Function.prototype.apply = evil;
  Reflect.apply = Reflect.construct = Array.prototype.push = Object.prototype.hasOwnProperty = evil;
  return await flo.callTool({ tool_id: "look" });
}
