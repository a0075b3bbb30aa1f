// Signs a person in and out, and lets them make and remove passkeys. Text is only ever set as text.

const part = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
let csrf = "";

class Refused extends Error {}

async function ask(method, path, body) {
  const headers = { Accept: "application/json" };
  if (method === "POST") {
    headers["Content-Type"] = "application/json";
    if (csrf) headers["X-CSRF-Token"] = csrf;
  }
  const answer = await fetch(path, {
    method, headers, credentials: "same-origin", redirect: "error",
    body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
  });
  if (answer.status === 204) return null;
  const content = await answer.json();
  if (!answer.ok) throw Object.assign(new Refused(content.detail ?? answer.statusText), { status: answer.status });
  return content;
}

// Passkeys speak in bytes, and JSON in base64url.

function toBytes(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

function toText(bytes) {
  const plain = String.fromCharCode(...new Uint8Array(bytes));
  return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function asAnswer(credential, members) {
  const response = {};
  for (const name of members) {
    if (credential.response[name]) response[name] = toText(credential.response[name]);
  }
  return { id: credential.id, rawId: toText(credential.rawId), type: credential.type, response };
}

async function makePasskey(name) {
  const { options } = await ask("POST", "v1/passkeys/options");
  options.challenge = toBytes(options.challenge);
  options.user.id = toBytes(options.user.id);
  for (const known of options.excludeCredentials ?? []) known.id = toBytes(known.id);
  const made = await navigator.credentials.create({ publicKey: options });
  await ask("POST", "v1/passkeys", { name, credential: asAnswer(made, ["clientDataJSON", "attestationObject"]) });
}

async function signInByPasskey() {
  const tenant = tenantHere();
  const { options } = await ask("POST", "v1/sign-in/options", { tenant });
  options.challenge = toBytes(options.challenge);
  const signed = await navigator.credentials.get({ publicKey: options });
  const members = ["clientDataJSON", "authenticatorData", "signature", "userHandle"];
  return ask("POST", "v1/sign-in/passkey", { tenant, credential: asAnswer(signed, members) });
}

// Which tenant's people sign in here: the address says it, or whoever came by a link last.

function tenantHere() {
  return query.get("tenant") ?? localStorage.getItem("indelible-tenant") ?? "default";
}

// What is shown

function say(text) {
  part("status").textContent = text;
}

function show(title, isInside) {
  part("title").textContent = title;
  document.title = `${title} · Indelible`;
  part("outside").hidden = isInside;
  part("inside").hidden = !isInside;
}

function entry(text, label, act) {
  const item = document.createElement("li");
  const words = document.createElement("span");
  words.textContent = text;
  item.append(words);
  if (act) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", `${label}: ${text}`);
    button.addEventListener("click", () => doing(button, act));
    item.append(button);
  }
  return item;
}

const when = (text) => new Date(text).toLocaleString();

async function showInside(me) {
  csrf = me.csrf_token ?? "";
  localStorage.setItem("indelible-tenant", me.tenant);
  show("You are signed in", true);
  part("who").textContent = me.name;
  part("may").textContent = `Tenant ${me.tenant}, as ${me.scopes.join(", ")}.`;
  const { passkeys } = await ask("GET", "v1/passkeys");
  part("no-passkey").hidden = passkeys.length > 0 || me.via === "oidc";
  part("passkeys").replaceChildren(...passkeys.map((one) => entry(
    `${one.name}, made ${when(one.created_at)}, ${one.used_at ? `used ${when(one.used_at)}` : "not used yet"}`,
    "Remove",
    async () => { await ask("POST", `v1/passkeys/${one.id}/remove`); await look("The passkey is removed."); },
  )));
  const { sessions } = await ask("GET", "v1/sessions");
  part("sessions").replaceChildren(...sessions.map((one) => entry(
    `${one.is_this ? "This browser" : "Another browser"}, by ${one.via}, since ${when(one.created_at)}`,
    "End",
    one.is_this ? null : async () => {
      await ask("POST", `v1/sessions/${one.id}/end`);
      await look("That session is over.");
    },
  )));
}

async function showOutside() {
  csrf = "";
  show("Sign in", false);
  const ways = await ask("GET", "v1/sign-in");
  part("by-provider").hidden = ways.provider === null;
  if (ways.provider !== null) part("provider").textContent = `Sign in with ${ways.provider}`;
}

async function look(text) {
  try {
    await showInside(await ask("GET", "v1/me"));
    say(text ?? "");
  } catch (problem) {
    if (problem.status !== 401) throw problem;
    await showOutside();
    say(text ?? "");
  }
}

// Somebody who was on their way elsewhere goes on; never to another site.
function goOn() {
  const next = query.get("next");
  if (next === null) return false;
  const target = new URL(next, location.href);
  if (target.origin !== location.origin) return false;
  location.replace(target);
  return true;
}

async function doing(button, act) {
  part("trouble").textContent = "";
  button.disabled = true;
  try {
    await act();
  } catch (problem) {
    part("trouble").textContent = explained(problem);
  } finally {
    button.disabled = false;
  }
}

function explained(problem) {
  if (problem instanceof Refused) return problem.message;
  if (problem.name === "NotAllowedError") return "Nothing was signed: it was canceled, or took too long. Try again.";
  if (problem.name === "InvalidStateError") return "This authenticator has a passkey of yours already.";
  if (problem.name === "SecurityError") return "Passkeys need a name with https, or http://localhost; open this page there.";
  return `That did not work: ${problem.message}`;
}

async function begin() {
  // Passkeys belong to names, and an address is none.
  if (["127.0.0.1", "[::1]"].includes(location.hostname)) {
    location.replace(location.href.replace(location.hostname, "localhost"));
    return;
  }
  const ticket = location.hash.slice(1);
  if (!ticket) {
    await look();
    return;
  }
  history.replaceState(null, "", location.pathname + location.search);  // a link is a secret, also when it is used up
  try {
    csrf = (await ask("POST", "v1/sign-in/link", { ticket })).csrf_token;
  } catch (problem) {
    await look("");
    part("trouble").textContent = `This link signs nobody in: it was used, is too old, or was replaced. ${explained(problem)}`;
    return;
  }
  await look("You are signed in by your link.");
  part("title").focus();
}

part("sign-in").addEventListener("click", (event) => doing(event.target, async () => {
  say("Waiting for your passkey…");
  try {
    await signInByPasskey();
  } catch (problem) {
    say("");
    throw problem;
  }
  if (!goOn()) await look("You are signed in.");
}));
part("sign-out").addEventListener("click", (event) => doing(event.target, async () => {
  await ask("POST", "v1/sign-out");
  await look("You are signed out.");
}));
part("add").addEventListener("submit", (event) => {
  event.preventDefault();
  doing(event.submitter, async () => {
    await makePasskey(part("name").value.trim() || "passkey");
    part("name").value = "";
    await look("The passkey is made. From now on it signs you in.");
  });
});
begin().catch((problem) => {
  say("");
  part("trouble").textContent = explained(problem);
});
