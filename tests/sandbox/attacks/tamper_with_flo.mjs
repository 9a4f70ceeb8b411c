// ends: success
// output: ["TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError"]
const attempt = (act) => {
  try { act(); return "nothing"; } catch (error) { return error.name; }
};
export function run() {
  return [
    attempt(() => { flo.callTool = null; }),
    attempt(() => { flo.more = 1; }),
    attempt(() => { delete flo.callTool; }),
    attempt(() => { globalThis.flo = {}; }),
    attempt(() => { delete globalThis.flo; }),
    attempt(() => { Object.defineProperty(globalThis, "flo", { value: 1 }); }),
    attempt(() => { flo.state.get = null; }),
    attempt(() => { Object.setPrototypeOf(flo, {}); }),
  ];
}
