// ends: SCRIPT_ERROR
// says: the script waits for a promise that nothing will settle
await new Promise(() => {});
export function run() {}
