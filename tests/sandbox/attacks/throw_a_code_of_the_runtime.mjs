// ends: SCRIPT_ERROR
// says: belongs to the runtime
export function run() {
  throw new flo.ToolError({ code: "CANCELLED", message: "mine" });
}
