for (const owner of [Math, Number, Number.prototype, Boolean.prototype, Date, Date.prototype]) {
  for (const name of own(owner)) if (typeof owner[name] === "function") owner[name] = evil;
}
