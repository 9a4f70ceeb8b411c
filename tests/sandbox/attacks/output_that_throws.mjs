// ends: SCRIPT_ERROR
// says: the output is not JSON: no
export function run() {
  return { toJSON() { throw new Error("no"); } };
}
