// ends: SCRIPT_ERROR
// says: mine
export function run() {
  const forged = Object.create(flo.FloError.prototype);
  throw Object.assign(new Error("mine"), { code: "CANCELLED", __proto__: forged });
}
