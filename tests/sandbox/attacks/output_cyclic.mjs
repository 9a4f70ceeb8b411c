// ends: SCRIPT_ERROR
// says: the output is not JSON
export function run() {
  const itself = {};
  itself.itself = itself;
  return itself;
}
