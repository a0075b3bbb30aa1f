// Checks a record: every hash is computed anew. Knows nothing of the page.

const ZEROS = "0".repeat(64);
const EVENT_MEMBERS = ["body", "index", "payloads", "proof"];
const PAYLOAD_MEMBERS = ["field", "salt", "value"];
const RECORD_MEMBERS = ["events", "head", "manifest"];
const MANIFEST_MEMBERS = [
  "events", "first", "format", "indelible", "keys", "kind", "last", "made_at", "origin", "payloads", "root", "run",
  "size", "withheld",
];

const AT_ONCE = 250;

const encoder = new TextEncoder();
const isText = (value) => typeof value === "string";
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

class Bad extends Error {}

function bytesOfHex(text, length) {
  const isHex = isText(text) && /^([0-9a-f]{2})*$/.test(text);
  if (!isHex || text.length !== 2 * length) throw new Bad("no hexadecimal of the right length");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function bytesOf64(text) {
  if (!isText(text)) throw new Bad("no base64");
  let raw;
  try { raw = atob(text); } catch { throw new Bad("no base64"); }
  if (btoa(raw) !== text) throw new Bad("base64 that could be written in another way");
  return Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
}

function textOf(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try { return decoder.decode(bytes); } catch { throw new Bad("no UTF-8"); }
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) { whole.set(part, place); place += part.length; }
  return whole;
}

const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));

const nodeOf = (bytes) => ({ bytes, hex: hexOf(bytes) });

// Neighbours share most of their way to the root, so each pair is hashed once.
function nodeHasher() {
  const known = new Map();
  return (left, right) => {
    const pair = left.hex + right.hex;
    let found = known.get(pair);
    if (!found) { found = sha256(Uint8Array.of(1), left.bytes, right.bytes).then(nodeOf); known.set(pair, found); }
    return found;
  };
}

// RFC 6962: the root that a way leads to, or null when a way of this length cannot be about this place.
async function rootByProof(leaf, index, size, proof, nodeHash) {
  let root = leaf, number = index, last = size - 1, used = 0;
  while (last > 0) {
    if (number % 2 === 1 || number < last) {
      if (used === proof.length) return null;
      const sibling = proof[used++];
      root = number % 2 === 1 ? await nodeHash(sibling, root) : await nodeHash(root, sibling);
    }
    number = Math.floor(number / 2);
    last = Math.floor(last / 2);
  }
  return used === proof.length ? root : null;
}

async function commitmentOf(salt, field, value) {
  const name = encoder.encode(field);
  const length = Uint8Array.of(name.length >> 8, name.length & 255);
  return hexOf(await sha256(encoder.encode("indelible/commit/v1\0"), salt, length, name, value));
}

// Strict: what has a member more or less than it should is refused.
function checkMembers(object, members, what) {
  const names = isObject(object) ? Object.keys(object) : [];
  const isExact = names.length === members.length && members.every((name) => names.includes(name));
  if (!isExact) throw new Bad(`${what} has members missing or added`);
}

// A note: a text, an empty line, signature lines.
function parseNote(note) {
  if (!isText(note) || /[\u0000-\u0009\u000b-\u001f]/.test(note)) throw new Bad("the signed head cannot be read");
  const gap = note.lastIndexOf("\n\n");
  if (gap < 1 || !note.endsWith("\n")) throw new Bad("the signed head cannot be read");
  const text = note.slice(0, gap + 1);
  const lines = note.slice(gap + 2, -1).split("\n");
  if (lines.length > 100) throw new Bad("more than 100 signatures stand under the head");
  const signatures = lines.map((line) => {
    const found = /^\u2014 ([^\s+]+) (\S+)$/.exec(line);
    if (!found) throw new Bad("a signature line under the head cannot be read");
    const content = bytesOf64(found[2]);
    if (content.length <= 4) throw new Bad("a signature under the head is cut short");
    return { name: found[1], keyId: hexOf(content.slice(0, 4)), content: content.slice(4) };
  });
  return { text, signatures };
}

function parseHead(text) {
  const lines = text.split("\n");
  if (lines.length < 4 || lines.pop() !== "" || lines.includes("")) throw new Bad("the signed head cannot be read");
  const [origin, size, root64] = lines;
  if (!/^(0|[1-9][0-9]{0,15})$/.test(size) || !isCount(Number(size))) throw new Bad("the head's size cannot be read");
  const root = bytesOf64(root64);
  if (root.length !== 32) throw new Bad("the head's root cannot be read");
  return { origin, size: Number(size), root };
}

// Gives everything there is to say about a record, but whose signature its head carries.
async function checkRecord(record, progress) {
  const report = { events: [], problems: [], note: null, head: null, manifest: {}, payloads: 0, begins: new Map() };
  // A problem belongs to one of the checks: tree, chain, values or manifest.
  const blame = (part, what, expected, found, event) => {
    const problem = { part, what, expected, found, event };
    (event ? event.problems : report.problems).push(problem);
  };
  try {
    checkMembers(record, RECORD_MEMBERS, "the record");
    report.note = parseNote(record.head);
    report.head = parseHead(report.note.text);
    checkMembers(record.manifest, MANIFEST_MEMBERS, "the manifest");
    report.manifest = record.manifest;
    if (!Array.isArray(record.events) || !record.events.length) throw new Bad("the record holds no events");
  } catch (problem) {
    blame("tree", problem instanceof Bad ? problem.message : "the record cannot be read");
    return report;
  }
  const context = { nodes: [], nodeHash: nodeHasher(), head: report.head, blame };
  for (let number = 0; number < record.events.length; number += AT_ONCE) {
    const some = record.events.slice(number, number + AT_ONCE);
    report.events.push(...await Promise.all(some.map((given) => checkEvent(given, context))));
    progress(report.events.length / record.events.length);
    await new Promise((go) => setTimeout(go));
  }
  checkOrder(report, blame);
  checkChains(report, blame);
  checkManifest(report, blame);
  markErased(report);
  checkMissing(report, blame);
  return report;
}

async function checkEvent(given, { nodes, nodeHash, head, blame }) {
  const event = { index: null, hash: null, fields: null, text: null, payloads: [], absent: [], problems: [] };
  try {
    const proof = proofOf(given?.proof, nodes);  // first, and before any waiting: later events name its hashes
    checkMembers(given, EVENT_MEMBERS, "it");
    if (!isCount(given.index)) throw new Bad("its place in the journal is no number");
    event.index = given.index;
    const body = bytesOf64(given.body);
    const leaf = nodeOf(await sha256(Uint8Array.of(0), body));
    event.hash = leaf.hex;
    const root = await rootByProof(leaf, event.index, head.size, proof, nodeHash);
    if (root?.hex !== hexOf(head.root)) {
      const found = root?.hex ?? "a proof of the wrong length";
      const what = "it does not lead to the signed root: this event, or its proof, was changed";
      blame("tree", what, hexOf(head.root), found, event);
    }
    event.text = textOf(body);
    event.fields = fieldsOf(event.text);
    const { log } = event.fields;
    if (log !== head.origin) blame("tree", "it belongs to another journal", head.origin, String(log), event);
    await checkPayloads(event, given.payloads, blame);
  } catch (problem) {
    blame("tree", problem instanceof Bad ? problem.message : "it cannot be read", undefined, undefined, event);
  }
  return event;
}

// A hash that came before is named by its number, so that it stands in the file once.
function proofOf(given, nodes) {
  if (!Array.isArray(given)) throw new Bad("its proof is none");
  return given.map((one) => {
    if (isCount(one) && one < nodes.length) return nodes[one];
    const node = bytesOf64(one);
    if (node.length !== 32) throw new Bad("its proof is none");
    nodes.push(nodeOf(node));
    return nodes[nodes.length - 1];
  });
}

function fieldsOf(text) {
  let fields;
  try { fields = JSON.parse(text); } catch { throw new Bad("its content is no JSON"); }
  const isWhole = isObject(fields) && fields.v === 1 && isCount(fields.seq)
    && ["run", "prev", "type", "at"].every((name) => isText(fields[name]))
    && isObject(fields.actor) && isObject(fields.commits);
  if (!isWhole) throw new Bad("its content is no event of version 1");
  return fields;
}

async function checkPayloads(event, given, blame) {
  if (!Array.isArray(given)) throw new Bad("its payloads are none");
  const seen = new Set();
  for (const one of given) {
    checkMembers(one, PAYLOAD_MEMBERS, "a value");
    if (!isText(one.field)) throw new Bad("a value belongs to no field");
    const expected = Object.hasOwn(event.fields.commits, one.field) ? event.fields.commits[one.field] : "no such value";
    const value = bytesOf64(one.value);
    const found = await commitmentOf(bytesOfHex(one.salt, 32), one.field, value);
    const isGood = found === expected && !seen.has(one.field);
    if (!isGood) blame("values", `its “${one.field}” is not the value this event committed to`, expected, found, event);
    seen.add(one.field);
    event.payloads.push({ field: one.field, value, isGood });
  }
  const absent = Object.keys(event.fields.commits).filter((name) => !seen.has(name));
  event.absent = absent.map((field) => ({ field, isErased: false }));
}

// Places rise; a period and a whole journal have no gap, and a whole journal begins at 0 and ends at the head.
function checkOrder({ events, manifest, head }, blame) {
  const isDense = manifest.kind !== "run";
  let before = manifest.kind === "journal" ? -1 : null;
  for (const event of events) {
    if (event.index === null) continue;
    const isNext = before === null || (isDense ? event.index === before + 1 : event.index > before);
    if (!isNext) {
      const wanted = isDense ? `entry ${before + 1}` : `an entry after ${before}`;
      blame("chain", "events before it are missing, doubled or out of order", wanted, `entry ${event.index}`, event);
    }
    before = event.index;
  }
  if (manifest.kind === "journal" && before !== head.size - 1) {
    blame("chain", "the journal's last events are missing", `${head.size} entries`, `${before + 1} entries`);
  }
}

// Each event of a run names the hash of the one before it; numbers have no gap.
function checkChains({ events, manifest, begins }, blame) {
  const ends = new Map();
  for (const event of events) {
    if (!event.fields) continue;
    const { run, seq, prev } = event.fields;
    let end = ends.get(run);
    if (!end) {
      begins.set(run, seq);
      const isFromStart = manifest.kind !== "period" || seq === 0;
      end = isFromStart ? { seq: 0, hash: ZEROS } : { seq, hash: prev };
    }
    if (seq !== end.seq) {
      blame("chain", "an event of its run is missing or comes twice", `number ${end.seq}`, `number ${seq}`, event);
    } else if (prev !== end.hash) {
      blame("chain", "it does not follow the event shown before it, of which it names the hash", end.hash, prev, event);
    }
    ends.set(run, { seq: seq + 1, hash: event.hash });
  }
}

// Nothing in the manifest is trusted: where it contradicts the rest, somebody changed something.
function checkManifest(report, blame) {
  const { manifest, head, events } = report;
  report.payloads = events.reduce((sum, event) => sum + event.payloads.length, 0);
  const isOfRun = manifest.kind === "run";
  const truths = {
    format: "indelible/report/v1", origin: head.origin, size: head.size, root: btoa(String.fromCharCode(...head.root)),
    events: events.length, payloads: report.payloads, first: events[0].index, last: events[events.length - 1].index,
    run: isOfRun ? (events[0].fields?.run ?? manifest.run) : null,
  };
  const contradict = (name, truth) => {
    blame("manifest", `the manifest's “${name}” is not what the record shows`, String(truth), String(manifest[name]));
  };
  for (const [name, truth] of Object.entries(truths)) if (manifest[name] !== truth) contradict(name, truth);
  if (!["journal", "run", "period"].includes(manifest.kind)) contradict("kind", "journal, run or period");
  const absent = events.reduce((sum, event) => sum + event.absent.length, 0);
  if (!isCount(manifest.withheld) || manifest.withheld > absent) contradict("withheld", `at most ${absent}`);
  for (const event of isOfRun ? events.filter(({ fields }) => fields) : []) {
    const { run } = event.fields;
    if (run !== truths.run) blame("chain", "it belongs to another run", truths.run, run, event);
  }
}

// A value that went by an event of its run was erased lawfully; one that is only absent may have been withheld.
function markErased({ events }) {
  const erased = new Set();
  const named = (run, seq, field) => JSON.stringify([run, seq, field]);
  for (const { fields } of events) {
    if (fields?.type !== "payload_erased" || !Array.isArray(fields.facts?.erased)) continue;
    for (const one of fields.facts.erased) {
      for (const name of Array.isArray(one?.fields) ? one.fields : []) erased.add(named(fields.run, one.seq, name));
    }
  }
  for (const event of events) {
    for (const one of event.absent) one.isErased = erased.has(named(event.fields.run, event.fields.seq, one.field));
  }
}

// Of a whole journal every value is here that was neither erased nor withheld; of a part, what erased it may lie outside.
function checkMissing({ events, manifest }, blame) {
  const lacking = events.flatMap((event) => event.absent).filter((one) => !one.isErased).length;
  if (manifest.kind === "journal" && lacking > manifest.withheld) {
    blame("values", "values are missing that nobody erased or withheld", `${manifest.withheld} withheld`, `${lacking}`);
  }
}
