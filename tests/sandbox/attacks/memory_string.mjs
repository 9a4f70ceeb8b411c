// ends: *
export function run() {
  let text = "x";
  while (true) text += text;
}
