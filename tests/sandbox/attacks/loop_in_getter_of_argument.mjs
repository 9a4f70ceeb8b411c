// ends: TIMEOUT
export async function run() {
  await flo.callTool({ get tool_id() { while (true); } });
}
