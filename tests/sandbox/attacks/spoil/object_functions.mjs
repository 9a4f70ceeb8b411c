for (const name of own(Object)) {
  if (typeof Object[name] === "function" && name !== "prototype") Object[name] = evil;
}
