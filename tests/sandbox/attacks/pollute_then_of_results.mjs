// ends: success
// output: {"status": "success"}
let stolen = 0;
Object.defineProperty(Object.prototype, "then", { get() { stolen += 1; return undefined; }, configurable: true });
export async function run() {
  const { status } = await flo.callTool({ tool_id: "look" });
  return { status };
}
