// ends: *
// seconds: 5
export async function run() {
  const body = new Uint8Array(12 << 20);
  const calls = [];
  for (let n = 0; n < 100; n++) calls.push(fetch("https://example.com", { method: "POST", body }));
  await Promise.all(calls);
}
