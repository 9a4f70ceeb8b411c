// ends: success
// output: "RangeError"
export function run() {
  const deeper = () => 1 + deeper();
  try { return deeper(); } catch (error) { return error.name; }
}
