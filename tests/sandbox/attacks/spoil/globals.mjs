const found = [];
for (const name of own(globalThis)) {
  const { configurable, value } = Object.getOwnPropertyDescriptor(globalThis, name);
  if (configurable && typeof value === "function" && name !== "fetch") found.push(name);
}
for (const name of found) globalThis[name] = evil;
