// Whose signature is under the head? Keys come from the reader alone.

const P = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const modP = (number) => ((number % P) + P) % P;

function power(root, exponent) {
  let result = 1n;
  for (let square = modP(root); exponent > 0n; exponent >>= 1n, square = modP(square * square)) {
    if (exponent & 1n) result = modP(result * square);
  }
  return result;
}

const CURVE_D = modP(-121665n * power(121666n, P - 2n));

function plus([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = modP((y1 - x1) * (y2 - x2)), b = modP((y1 + x1) * (y2 + x2));
  const c = modP(2n * t1 * t2 * CURVE_D), d = modP(2n * z1 * z2);
  const e = b - a, f = d - c, g = d + c, h = b + a;
  return [modP(e * f), modP(g * h), modP(f * g), modP(e * h)];
}

function isNeutralAfter(count, point) {
  let total = [0n, 1n, 1n, 0n];
  for (; count > 0n; count >>= 1n, point = plus(point, point)) if (count & 1n) total = plus(total, point);
  return modP(total[0]) === 0n && modP(total[1] - total[2]) === 0n;
}

// A key outside the large prime-order group lets one signature fit many messages; such a key is nobody's.
function isWeak(raw) {
  const number = BigInt("0x" + hexOf(Uint8Array.from(raw).reverse()));
  const y = number & (2n ** 255n - 1n), sign = number >> 255n;
  if (y >= P) return true;
  const square = modP((y * y - 1n) * power(CURVE_D * y * y + 1n, P - 2n));
  let x = power(square, (P + 3n) / 8n);
  if (modP(x * x - square) !== 0n) x = modP(x * power(2n, (P - 1n) / 4n));
  if (modP(x * x - square) !== 0n || x === 0n) return true;
  if ((x & 1n) !== sign) x = P - x;
  const point = [x, y, 1n, modP(x * y)];
  return isNeutralAfter(8n, point) || !isNeutralAfter(ORDER, point);
}

async function parseVkey(text) {
  const [name, keyId, ...rest] = text.trim().split("+");
  let content;
  try { content = bytesOf64(rest.join("+")); } catch { content = new Uint8Array(); }
  if (!name || /\s/.test(name) || content.length !== 33) throw new Bad("A public key looks like name+0123abcd+base64.");
  if (content[0] !== 1) throw new Bad("This is no key that signs journals.");
  const id = hexOf((await sha256(encoder.encode(name + "\n"), content)).slice(0, 4));
  if (id !== keyId) throw new Bad("This key is damaged: its parts do not belong together.");
  const raw = content.slice(1);
  if (isWeak(raw)) throw new Bad("This is no key that one person can hold: signatures by it prove nothing.");
  return { name, id, raw };
}

const signs = async (key, content, message) => content.length === 64 && await crypto.subtle.verify(
  "Ed25519", await crypto.subtle.importKey("raw", key.raw, "Ed25519", false, ["verify"]), content, message) === true;
const vkeyOf = ({ name, id, raw }) => `${name}+${id}+${btoa(String.fromCharCode(1, ...raw))}`;

// The key, and those that follow it by rotations that stand under the head, each signed by both keys; null if one is not.
async function followed(note, key) {
  const found = [key];
  for (const old of found) {
    const line = joined(encoder.encode(`${old.name}\n`), Uint8Array.of(255), encoder.encode("indelible/rotation/v1\0"), old.raw);
    const id = hexOf((await sha256(line)).slice(0, 4));
    for (const { content } of note.signatures.filter((one) => one.name === old.name && one.keyId === id)) {
      const raw = content.slice(0, 32);
      if (content.length !== 160 || isWeak(raw)) return null;
      const newId = hexOf((await sha256(encoder.encode(`${old.name}\n`), Uint8Array.of(1), raw)).slice(0, 4));
      const next = { name: old.name, id: newId, raw };
      const message = encoder.encode(`indelible/rotate/v1\0${vkeyOf(old)}\n${vkeyOf(next)}`);
      const isSigned = await signs(old, content.slice(32, 96), message) && await signs(next, content.slice(96), message);
      if (!isSigned) return null;
      if (!found.some((one) => one.id === next.id)) found.push(next);
    }
  }
  return found;
}

// Gives "signed", "foreign" (the key is another journal's), "unsigned" (not by this key), "forged" or "cannot": a browser
// without Ed25519 never says signed. One key signs the journals of all tenants, and what it signs does not name it: so
// whose journal this is, its origin says alone.
async function checkSignature(note, origin, vkey) {
  const key = await parseVkey(vkey);
  if (key.name !== origin) return { state: "foreign", key };
  const text = encoder.encode(note.text);
  let signer = null;
  try {
    for (const one of await followed(note, key) ?? [null]) {
      if (!one) return { state: "forged", key };
      for (const { content } of note.signatures.filter((line) => line.name === one.name && line.keyId === one.id)) {
        if (!await signs(one, content, text)) return { state: "forged", key };
        signer = one;
      }
    }
  } catch {
    return { state: "cannot", key };
  }
  return signer ? { state: "signed", key: signer } : { state: "unsigned", key };
}

// What the journal itself says against a key for a head of this size: that it was revoked, or replaced by another.
function whyRetired(key, head, events) {
  const vkey = `${key.name}+${key.id}+`;
  for (const { fields, index } of events) {
    if (fields?.run !== "indelible:journal" || !isObject(fields.facts)) continue;
    const { facts, type } = fields;
    if (type === "key_revoked" && isText(facts.key) && facts.key.startsWith(vkey) && head.size > facts.size) {
      return `The journal revokes the key you gave, from size ${facts.size} on (entry ${index}): `
        + "its signature on this head counts for nothing.";
    }
    if (type === "key_rotated" && isText(facts.old) && facts.old.startsWith(vkey) && head.size > index) {
      return `The journal replaced the key you gave by another at entry ${index}. Ask its owner for the key that signs `
        + "now, or check a bundle with indelible verify, which follows the change.";
    }
  }
  return null;
}
