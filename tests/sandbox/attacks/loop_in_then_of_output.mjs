// ends: TIMEOUT
export function run() {
  return { then() { while (true); } };
}
