const views = Object.getPrototypeOf(Uint8Array.prototype);
const seen = (given) => {
  if (typeof given === "object" && !(given instanceof Object)) throw flo.callTool({ tool_id: "escaped" });
};
views.set = views.subarray = views.slice = seen;
Array.prototype[Symbol.iterator] = function () {
  seen(this);
  return { next: () => ({ done: true }) };
};
