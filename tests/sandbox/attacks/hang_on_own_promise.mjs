// ends: SCRIPT_ERROR
// says: the script waits for a promise that nothing will settle
export function run() {
  return new Promise(() => {});
}
