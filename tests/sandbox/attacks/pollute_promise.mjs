// ends: success
// output: {"own": true, "status": "success"}
let seen = [];
const before = Promise.prototype.then;
Promise.prototype.then = function (...given) {
  seen.push(this);
  return before.apply(this, given);
};
export async function run() {
  const { status } = await flo.callTool({ tool_id: "look" });
  return { own: seen.every((each) => each instanceof Promise), status };
}
