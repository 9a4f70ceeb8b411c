// ends: success
// output: "TypeError"
export function run() {
  try { Error.prepareStackTrace = () => "mine"; return "nothing"; } catch (error) { return error.name; }
}
