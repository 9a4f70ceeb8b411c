// ends: success
// output: "success"
const evil = function* () { yield "forged"; };
Array.prototype[Symbol.iterator] = evil;
export async function run() {
  const envelope = await flo.callTool({ tool_id: "look" });
  return envelope.status;
}
