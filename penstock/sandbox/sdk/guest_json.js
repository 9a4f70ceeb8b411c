// JSON for the host. Values of a script are serialised by `JSON.stringify`, including `toJSON`. The parts
// around them are serialised here, so that no `toJSON` of a patched prototype can change them.
let textOfJson;

/** A value of the script that is already JSON. */
class JsonText {
  #text;

  constructor(text) {
    this.#text = text;
  }

  static {
    textOfJson = (value) => (#text in value ? value.#text : undefined);
  }
}

/** Serialise a value of the guest sources: objects and dense arrays of texts, numbers and JsonTexts. */
function spelled(value) {
  if (typeof value !== "object" || value === null) return toJson(value);
  const text = textOfJson(value);
  if (text !== undefined) return text;
  return isArray(value) ? spelledItems(value) : spelledMembers(value);
}

function spelledItems(items) {
  let text = "";
  for (let at = 0; at < items.length; at++) text += `${at === 0 ? "" : ","}${spelled(items[at])}`;
  return `[${text}]`;
}

function spelledMembers(object) {
  const names = keys(object);
  let text = "";
  for (let at = 0; at < names.length; at++) {
    const value = object[names[at]];
    if (value !== undefined) text += `${text === "" ? "" : ","}${toJson(names[at])}:${spelled(value)}`;
  }
  return `{${text}}`;
}
