// ends: TIMEOUT
export function run() {
  return { get a() { while (true); } };
}
