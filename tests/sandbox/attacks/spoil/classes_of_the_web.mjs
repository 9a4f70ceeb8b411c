const kinds = [URL, URLSearchParams, Blob, File, FormData, TextEncoder, TextDecoder, AbortController, AbortSignal, DOMException];
for (const { prototype } of kinds) {
  for (const name of own(prototype)) {
    if (Object.getOwnPropertyDescriptor(prototype, name).configurable) define(prototype, name, { __proto__: null, value: evil });
  }
}
