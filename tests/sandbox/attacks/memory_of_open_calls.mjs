// ends: *
// seconds: 5
export async function run() {
  const text = "x".repeat(4 << 20);
  const calls = [];
  for (let n = 0; n < 200; n++) calls.push(flo.callTool({ tool_id: "look", input: { text } }));
  await Promise.all(calls);
}
