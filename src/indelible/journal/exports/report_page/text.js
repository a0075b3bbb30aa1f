// Text that may hold anything: shown as text, never as markup, and nothing in it hides.

const UNSEEN_KINDS = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
// Joiners, fillers, selectors and blank braille draw nothing, though their kind does not say so.
const FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0";
const SELECTORS = /[\u180b-\u180f\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
const isUnseen = (letter) => UNSEEN_KINDS.test(letter) || FILLERS.includes(letter) || SELECTORS.test(letter);

function escapedLetter(letter) {
  return letter.split("").map((unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0")).join("");
}

// Puts a text into an element; what draws nothing becomes an escape that looks like one.
function show(element, text, keep = "") {
  let plain = "";
  const flush = () => { if (plain) element.append(plain); plain = ""; };
  for (const letter of String(text)) {
    if (keep.includes(letter) || !isUnseen(letter)) { plain += letter; continue; }
    flush();
    const mark = document.createElement("span");
    mark.className = "escape";
    mark.textContent = escapedLetter(letter);
    element.append(mark);
  }
  flush();
  return element;
}

// Lays JSON out without reading numbers or names anew: only spaces are added between its own letters.
function laidOut(json) {
  let out = "", depth = 0, isInText = false;
  const line = () => "\n" + "  ".repeat(Math.max(depth, 0));
  for (let at = 0; at < json.length; at++) {
    const letter = json[at];
    if (isInText) {
      out += letter;
      if (letter === "\\") out += json[++at] ?? "";
      else if (letter === '"') isInText = false;
    } else if (letter === '"') { isInText = true; out += letter; }
    else if (letter === "{" || letter === "[") {
      const isEmpty = "}]".includes(json[at + 1] ?? " ");
      out += letter;
      if (isEmpty) out += json[++at];
      else { depth++; out += line(); }
    } else if (letter === "}" || letter === "]") { depth--; out += line() + letter; }
    else if (letter === ",") out += letter + line();
    else if (letter === ":") out += ": ";
    else out += letter;
  }
  return out;
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) show(element, text);
  return element;
}

const at = (id) => document.getElementById(id);
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const known = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);
const said = (word) => String(word).replaceAll("_", " ");
const clock = (instant) => String(instant).replace("T", " ").replace(/(\.\d{3})\d{3}Z$/, "$1");
const decoded = (bytes) => verifier.textOf(bytes);
const hexOf = (bytes) => verifier.toHex(bytes);
const isText = (value) => typeof value === "string";
