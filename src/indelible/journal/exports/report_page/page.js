// The page: reads the record, has it checked, and says what was found. Every value goes in as text.

const { checkRecord, checkSignature } = verifier;

let report = null;
let signature = { state: "none" };

async function start() {
  if (!globalThis.crypto?.subtle) {
    setVerdict(
      "cannot", "Cannot be checked here", "This browser offers no cryptography to this page. Open the file from a disk "
      + "or over https, in a current browser. Nothing is verified.",
    );
    at("progress").hidden = true;
    return;
  }
  report = await checkRecord(at("record").textContent, (part) => { at("progress").value = part; });
  at("progress").hidden = true;
  showAbout();
  showClaimed();
  showRuns();
  const fromLink = new URLSearchParams(location.hash.slice(1)).get("key");
  if (fromLink) {
    at("key").value = fromLink;
    at("key-note").textContent = "This key came with the link. Trust it as far as you trust whoever gave you the link.";
  }
  await judge();
}

function setVerdict(state, word, why) {
  at("verdict").dataset.state = state;
  for (const [id, text] of [["verdict-word", word], ["verdict-why", why]]) {
    at(id).replaceChildren();
    show(at(id), text);
  }
}

function allProblems() {
  return [...report.problems, ...report.events.flatMap((event) => event.problems)];
}

async function judge() {
  const given = at("key").value.trim();
  signature = { state: "none" };
  if (given && report.head) signature = await checkSignature(report, [given]);
  const problems = allProblems();
  const count = plural(report.events.length, "event");
  if (problems.length) {
    const first = report.events.find((event) => event.problems.length);
    const where = first && first.index !== null ? ` The first bad entry is ${first.index}.` : "";
    const many = plural(problems.length, "contradiction");
    setVerdict("changed", "Changed", `This is not what was signed: ${many}.${where}`);
  } else {
    setVerdict(...verdictOnSignature(count));
  }
  showProblems(problems);
  showChecks(problems);
}

// "Verified" needs every check and the reader's key; anything less is told as what it is.
function verdictOnSignature(count) {
  const { state, key, why } = signature;
  switch (state) {
    case "signed": return ["verified", "Verified", `${count} of ${report.head.origin}: every hash fits, no chain is `
      + `broken, and the key you gave signed the head (${key.name}). See below what this does not rule out.`];
    case "forged": return ["changed", "Forged signature",
      `The head claims the signature of ${key.name}, and that signature is false.`];
    case "foreign": return ["changed", "Another journal than your key's",
      `This is a record of ${report.head.origin}, and the key you gave is that of ${key.name}.`];
    case "unsigned": return ["changed", "Not signed by your key",
      "The head under this record carries no signature by the key you gave. Anybody could have made this file."];
    case "retired": return ["changed", "Signed by a key that no longer counts", `By the journal’s own words: ${why}.`];
    case "cannot": return ["cannot", "Cannot check the signature here", "The hashes fit together, but this browser "
      + "knows no Ed25519. Use a current one, or: indelible verify. Nothing is verified."];
    case "unreadable": return ["unkeyed", "Not verified: no usable key", why];
    default: return ["unkeyed", "Not verified yet: no key", `${count}, and their hashes fit together. That alone `
      + "proves nothing: anybody can make a file that fits. Paste the journal’s public key."];
  }
}

function showProblems(problems) {
  const list = at("problems");
  list.replaceChildren(...problems.slice(0, 50).map((problem) => {
    const item = make("li");
    if (problem.event && problem.event.index !== null) {
      const link = make("a", "", `Entry ${problem.event.index}`);
      link.href = `#entry-${problem.event.index}`;
      item.append(link, ": ");
    }
    show(item, problem.what);
    item.append(...contrast(problem));
    return item;
  }));
  if (problems.length > 50) list.append(make("li", "", `and ${problems.length - 50} more`));
  list.hidden = !problems.length;
}

function contrast(problem) {
  if (problem.expected === undefined) return [];
  const pair = make("dl", "contrast");
  for (const [name, value] of [["expected", problem.expected], ["found", problem.found]]) {
    pair.append(make("dt", "", name), make("dd", "mono", value));
  }
  return [pair];
}

function showAbout() {
  const { events, manifest, head } = report;
  const titles = { run: `Run ${report.events[0]?.fields?.run ?? ""}`, journal: "The whole journal" };
  const title = known(titles, manifest.kind) ?? "A stretch of the journal";
  at("title").replaceChildren();
  show(at("title"), title);
  const rows = head ? [
    ["Journal", head.origin],
    ["Signed head", `size ${head.size.toLocaleString("en")}, root ${hexOf(head.root).slice(0, 16)}…`],
    ["Shown here", `${plural(events.length, "event")}, entries ${events[0]?.index} to ${events.at(-1)?.index}`],
    ["Made (as the file claims)", clock(manifest.made_at)],
  ] : [];
  at("about").replaceChildren(...rows.map(([name, value]) => {
    const pair = make("div");
    pair.append(make("dt", "", name), make("dd", "", value));
    return pair;
  }));
}

function showClaimed() {
  const keys = Array.isArray(report.manifest.keys) ? report.manifest.keys.filter(isText) : [];
  if (!keys.length) return;
  const box = make("details", "quiet");
  box.append(make("summary", "", "Keys this file claims (for comparison only, never to be trusted)"));
  for (const key of keys) box.append(make("p", "mono", key));
  at("claimed").replaceChildren(box);
}

function showChecks(problems) {
  const { events, manifest, head } = report;
  const absent = events.flatMap((event) => event.absent);
  const erased = absent.filter((one) => one.isErased).length;
  const runs = new Set(events.map((event) => event.fields?.run)).size;
  const line = (part, good, bad) => (problems.some((problem) => problem.part === part) ? ["bad", bad] : ["good", good]);
  const signed = {
    signed: ["good", `The head’s signature is genuine, by the key you gave: ${at("key").value.trim()}`],
    forged: ["bad", "The head’s signature is false."],
    foreign: ["bad", "The head is that of another journal than the key you gave."],
    unsigned: ["bad", "The head carries no signature by the key you gave."],
    retired: ["bad", "The head’s signature is by a key that no longer counts."],
    cannot: ["open", "The head’s signature cannot be checked in this browser."],
  }[signature.state] ?? ["open", "The head’s signature was not checked: no key was given."];
  const lines = !head || !events.length ? [["bad", "The record cannot be read."]] : [
    line(
      "tree", `${plural(events.length, "event")}: each hash leads to the root of the head.`,
      "Not every event leads to the root of the head.",
    ),
    line(
      "chain", `${plural(runs, "run")}: numbers without a gap, each event names the hash of the one before, and every move is legal.`,
      "Events are missing, doubled, out of order, do not follow each other, or break a rule.",
    ),
    line(
      "values", `${plural(report.payloads, "value")} shown: each is the one its event committed to.`,
      "Values are shown that no event committed to, or are missing though nobody erased or withheld them.",
    ),
    line(
      "manifest", "What the file says about itself agrees with the record.",
      "What the file says about itself contradicts the record.",
    ),
    signed,
  ];
  if (absent.length) {
    const many = plural(absent.length, "value");
    lines.push(["open", `${many} not shown: ${erased} erased on the record, ${absent.length - erased} withheld, or `
      + "erased by an event that is not in this file."]);
  }
  for (const event of events) {
    if (event.fields?.type !== "log_continued") continue;
    lines.push(["open", `At entry ${event.index} the journal was continued after a loss, as after restoring a backup: `
      + "events signed before may be gone, and heads signed before do not fit."]);
  }
  const words = { good: "checked", bad: "failed", open: "open" };
  at("checks").replaceChildren(...lines.map(([state, text]) => {
    const item = make("li");
    item.dataset.state = state;
    item.append(make("span", "sr", `${words[state]}: `), make("span", "", text));
    return item;
  }));
  at("open").replaceChildren(...notRuledOut(manifest).map((text) => make("li", "", text)));
}

function notRuledOut(manifest) {
  const open = [];
  if (signature.state !== "signed") open.push("That somebody else made all of this up: no signature was verified.");
  if (manifest.kind === "run") open.push("Later events of this run that were left out of this file.");
  if (manifest.kind === "period") {
    open.push("What happened before and after this stretch, and how runs that began earlier went until then.");
  }
  if (manifest.kind !== "journal") {
    open.push("That the key you gave was revoked or replaced: the journal tells so in events that are not here.");
  }
  open.push(
    "A newer head that shows more (a cut or rolled-back journal): compare with a head you kept, "
      + "indelible verify --after.",
    "A rewrite by whoever holds the signing key, and another history shown to somebody else: only an older head you "
      + "kept or a witness rules these out.",
    "A change of this page’s own script: it travelled with the record. To be independent of it, ask for a bundle and "
      + "check it with a verifier you installed yourself.",
    "The votes inside approvals, the writers’ own signatures and witnesses’ cosignatures: indelible verify checks them "
      + "in a bundle.",
    "That what was recorded is true: this shows only that it was recorded, and not changed since.",
  );
  return open;
}

at("key-form").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  if (report) judge();
});

// On paper everything is open, unless that would be a book.
globalThis.addEventListener("beforeprint", () => {
  if (!report || report.events.length > 300) return;
  for (const details of document.querySelectorAll("#runs details.effect:not([open])")) {
    details.open = true;
    details.fill();
    details.dataset.forPrint = "";
  }
});
globalThis.addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-for-print]")) {
    details.open = false;
    delete details.dataset.forPrint;
  }
});

start().catch(() => {
  setVerdict("changed", "Cannot be read", "The record in this file cannot be read. Nothing is verified.");
});
