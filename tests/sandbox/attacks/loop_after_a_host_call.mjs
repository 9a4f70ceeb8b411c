// ends: TIMEOUT
export async function run() {
  await flo.callTool({ tool_id: "look" });
  while (true);
}
