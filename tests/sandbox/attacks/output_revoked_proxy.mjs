// ends: SCRIPT_ERROR
export function run() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return { proxy };
}
