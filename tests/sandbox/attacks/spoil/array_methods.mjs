for (const name of own(Array.prototype)) {
  if (typeof Array.prototype[name] === "function" && name !== "constructor") Array.prototype[name] = evil;
}
