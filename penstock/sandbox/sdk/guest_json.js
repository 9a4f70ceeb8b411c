// JSON for the host. What a script gave is spelled as `JSON.stringify` does, `toJSON` and all; what the
// runtime puts around it is spelled here, where no `toJSON` of a prototype has a say in it.
let textOfJson;

/** A value of the script, spelled already. */
class JsonText {
  #text;

  constructor(text) {
    this.#text = text;
  }

  static {
    textOfJson = (value) => (#text in value ? value.#text : undefined);
  }
}

/** Spell what the runtime made: objects and arrays without holes, of texts, numbers and JsonTexts. */
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
