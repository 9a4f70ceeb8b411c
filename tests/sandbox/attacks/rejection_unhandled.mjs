// ends: success
// output: 1
export async function run() {
  Promise.reject(new Error("lost"));
  await flo.callTool({ tool_id: "look" });
  return 1;
}
