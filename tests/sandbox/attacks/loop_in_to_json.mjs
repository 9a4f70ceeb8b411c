// ends: TIMEOUT
export function run() {
  return { toJSON() { while (true); } };
}
