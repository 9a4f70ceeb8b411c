// ends: success
// output: {"a\ufffd": "\ufffdb"}
export function run() {
  return { "a\ud800": "\udc00b" };
}
