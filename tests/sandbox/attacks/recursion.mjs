// ends: SCRIPT_ERROR
// says: call stack
export function run() {
  return 1 + run();
}
