// ends: *
const caught = [];
for (const key of ["0", "1", "2", "__proto__"]) {
  Object.defineProperty(Array.prototype, key, { set(value) { caught.push(String(value)); }, configurable: true });
}
export async function run() {
  await flo.callTool({ tool_id: "look" });
  delete Array.prototype[0];
  delete Array.prototype[1];
  return { caught };
}
