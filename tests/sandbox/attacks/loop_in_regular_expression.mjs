// ends: TIMEOUT
export function run() {
  return /^(a+)+\1c$/.test(`${"a".repeat(40)}b`);
}
