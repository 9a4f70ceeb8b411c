// ends: SCRIPT_ERROR
// says: undefined
export function run() {
  throw undefined;
}
