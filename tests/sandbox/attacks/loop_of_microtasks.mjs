// ends: TIMEOUT
export async function run() {
  for (;;) await null;
}
