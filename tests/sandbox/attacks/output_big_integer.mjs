// ends: SCRIPT_ERROR
// says: the output is not JSON
export function run() {
  return { n: 1n };
}
