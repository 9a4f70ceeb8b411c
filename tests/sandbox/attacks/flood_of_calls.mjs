// ends: BUDGET_EXCEEDED
// seconds: 5
export async function run() {
  const calls = [];
  for (let n = 0; n < 20000; n++) calls.push(flo.getRuntimeConfig("x").catch((error) => { if (error.code === "BUDGET_EXCEEDED") throw error; }));
  await Promise.all(calls);
}
