// ends: TIMEOUT
export function run() {
  return /^(a+)+$/.test(`${"a".repeat(40)}b`);
}
