// seconds: 5
// ends: SCRIPT_ERROR
// says: bytes as JSON
export async function run() {
  await flo.callTool({ tool_id: "look", input: { text: "x".repeat(9 << 20) } });
}
