// ends: success
// output: ["TypeError", "TypeError", "TypeError", "TypeError"]
const attempt = (act) => {
  try { act(); return "nothing"; } catch (error) { return error.name; }
};
export function run() {
  return [
    attempt(() => { flo.callTool.call = null; }),
    attempt(() => { console.log = null; }),
    attempt(() => { flo.ToolError.prototype.name = "x"; }),
    attempt(() => { flo.task.limits.maxSpawnChildren = 1000; }),
  ];
}
