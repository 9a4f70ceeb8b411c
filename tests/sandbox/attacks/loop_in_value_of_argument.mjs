// ends: SCRIPT_ERROR
// says: flo.sleep takes milliseconds
export async function run() {
  await flo.sleep({ valueOf() { while (true); } });
}
