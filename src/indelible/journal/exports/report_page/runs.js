// Shows runs: their effects with arguments and outcomes, and every event in its order.

const SENTENCES = {
  tool_call_started: "Handler entered",
  approval_requested: "Asked for approval",
  approval_viewed: "Looked at what is asked",
  approval_voted: "Approved; others have to as well",
  approval_received: "Approved",
  approval_denied: "Denied",
  approval_edited: "Arguments changed by a person: asked anew about these",
  approval_revoked: "Approval taken back",
  approval_escalated: "More people asked",
  approval_expired: "Nobody decided in time",
  approval_stale: "Approval void: not what would run now",
  policy_checked: "Refused by the policy",
  policy_applied: "Policy put in force",
  delegation_given: "Decisions delegated",
  delegation_ended: "Delegation ended",
  grant_ended: "Standing grant ended",
  tool_call_finished: "Outcome recorded",
  tool_call_released: "May be tried again",
  tool_call_in_doubt: "In doubt: it may have happened",
  tool_call_canceled: "Withdrawn",
  tool_call_late: "Report came too late to count",
  tool_call_adopted: "Taken over from another ledger",
  run_started: "Run started",
  run_resumed: "Run resumed by a new driver",
  run_completed: "Run completed",
  run_failed: "Run failed: it can be resumed",
  run_canceled: "Run canceled",
  run_blocked: "Run set aside until somebody resumes it",
  run_flagged: "Run set aside: a person has to look at it",
  checkpoint_sealed: "Saved, with the agent's own state if there is one",
  interruption_detected: "Driver lost: it never reported again",
  packet_exported: "Handed out as a packet",
  payload_erased: "Payloads erased",
  key_registered: "Signing key registered",
  key_rotated: "Signing key rotated",
  key_revoked: "Signing key revoked",
  writer_registered: "Writer registered",
  journal_heartbeat: "Heartbeat",
  log_continued: "Journal continued after a restore: heads signed before it may not fit",
};
const RUN_STATUSES = {
  run_started: "active",
  run_resumed: "active",
  run_completed: "completed",
  run_failed: "failed",
  run_canceled: "canceled",
  run_blocked: "blocked",
  run_flagged: "manual_review_required",
};
const STATUSES = ["in_doubt", "requires_approval", "processing", "ready", "failed", "denied", "canceled", "succeeded"];
const OUTCOME_FIELDS = ["result", "error", "reason", "evidence", "late_result", "late_error"];
const JOURNAL_RUN = "indelible:journal";
const MOST_OPEN = 40;
const LONG = 1000;

function showRuns() {
  const runs = new Map();
  for (const event of report.events) {
    const run = event.fields?.run ?? "(unreadable)";
    if (!runs.has(run)) runs.set(run, []);
    runs.get(run).push(event);
  }
  const place = at("runs");
  place.replaceChildren();
  let number = 0;
  const inOrder = [...runs].sort(([one], [other]) => (one === JOURNAL_RUN) - (other === JOURNAL_RUN));
  for (const [run, events] of inOrder) place.append(runSection(run, events, number++));
}

function runSection(run, events, number) {
  const section = make("section", "run");
  const heading = make("h2", "", run === JOURNAL_RUN ? "The journal about itself" : `Run ${run}`);
  heading.id = `run-${number}`;
  section.setAttribute("aria-labelledby", heading.id);
  const effects = effectsOf(events);
  const begins = report.begins.get(run);
  const earlier = begins ? `; begins before this file, at event ${begins}` : "";
  const counts = `${plural(events.length, "event")}, ${plural(effects.length, "effect")}`;
  const summary = make("p", "quiet", counts + runStatus(events) + earlier);
  section.append(heading, summary, statusStrip(effects));
  if (effects.length) {
    section.append(make("h3", "", "Effects"));
    const isOpen = report.events.length <= MOST_OPEN * 4 && effects.length <= MOST_OPEN;
    for (const effect of effects) section.append(effectCard(effect, isOpen));
  }
  section.append(make("h3", "", "Timeline"));
  const timeline = make("ol", events.length > LONG ? "timeline long" : "timeline");
  for (const event of events) timeline.append(timelineItem(event));
  section.append(timeline);
  return section;
}

// Says how the run stands by the newest event of this file that tells of it; one that nobody started has no status.
function runStatus(events) {
  const statuses = events.map((event) => event.fields && known(RUN_STATUSES, event.fields.type)).filter(isText);
  return statuses.length ? `; the run is ${said(statuses.at(-1))}` : "";
}

function effectsOf(events) {
  const effects = new Map();
  for (const event of events) {
    const id = event.fields?.effect;
    if (!isText(id)) continue;
    if (!effects.has(id)) effects.set(id, { id, events: [] });
    effects.get(id).events.push(event);
  }
  return [...effects.values()];
}

function statusStrip(effects) {
  const strip = make("ul", "strip");
  for (const status of STATUSES) {
    const count = effects.filter((effect) => effect.events.at(-1).fields.status === status).length;
    if (!count) continue;
    const item = make("li");
    item.append(chip(status), ` ${count}`);
    strip.append(item);
  }
  return strip;
}

function chip(status) {
  const element = make("span", "chip", said(status));
  element.dataset.status = STATUSES.includes(status) ? status : "other";
  return element;
}

// Builds what is inside only when it is opened, so that long records stay quick.
function folded(details, build) {
  let isBuilt = false;
  const fill = () => { if (details.open && !isBuilt) { isBuilt = true; build(details); } };
  details.addEventListener("toggle", fill);
  details.fill = fill;
  fill();
  return details;
}

function effectCard(effect, isOpen) {
  const last = effect.events.at(-1).fields;
  const isBad = effect.events.some((event) => event.problems.length);
  const card = make("details", isBad ? "effect bad" : "effect");
  card.open = isOpen || isBad;
  const summary = make("summary");
  summary.append(make("span", "tool mono", last.tool), chip(last.status), make("span", "tag", said(last.side_effect)));
  if (last.attempt > 1) summary.append(make("span", "tag", `attempt ${last.attempt}`));
  if (isBad) summary.append(make("span", "tag alarm", "does not fit"));
  card.append(summary);
  return folded(card, () => {
    const values = make("div", "values");
    for (const event of effect.events) {
      for (const one of event.payloads) if (one.field === "args") values.append(valueBlock(argsTitle(event), one));
    }
    for (const event of effect.events) {
      const outcomes = event.payloads.filter((one) => OUTCOME_FIELDS.includes(one.field));
      for (const one of outcomes) values.append(valueBlock(titleOf(one.field, event), one));
      for (const one of event.absent) if (one.field !== "key") values.append(absentBlock(one));
    }
    const steps = make("ol", "steps");
    for (const event of effect.events) steps.append(stepItem(event));
    card.append(values, steps, make("p", "quiet mono", effect.id));
  });
}

function argsTitle({ fields }) {
  return fields.type === "approval_edited" ? "Arguments, as a person changed them" : "Arguments";
}

const REASONS = {
  approval_voted: "Why approved",
  approval_edited: "Why changed",
  approval_revoked: "Why taken back",
  approval_expired: "Why it ended",
  approval_stale: "Why it ended",
  approval_received: "Why approved",
  approval_denied: "Why denied",
  tool_call_released: "Why it may be tried again",
  tool_call_in_doubt: "Why in doubt",
  tool_call_canceled: "Why withdrawn",
};

function titleOf(field, event) {
  const name = said(field);
  return (field === "reason" && known(REASONS, event.fields.type)) || name.charAt(0).toUpperCase() + name.slice(1);
}

function valueBlock(title, payload) {
  const block = make("div", payload.isGood ? "value" : "value bad");
  block.append(make("h4", "", payload.isGood ? title : `${title}: not what was recorded`));
  block.append(show(make("pre"), payload.field === "key" ? hexOf(payload.value) : readable(payload.value), "\n"));
  return block;
}

function readable(bytes) {
  const text = decoded(bytes);
  if (text === null) return hexOf(bytes);
  try { JSON.parse(text); return laidOut(text); } catch { return text; }
}

function absentBlock(one) {
  const block = make("div", "value absent");
  const why = one.isErased ? "erased, on the record" : "not disclosed in this file";
  block.append(make("h4", "", said(one.field)), make("p", "quiet", why));
  return block;
}

function sentenceOf({ fields }) {
  if (!fields) return "Unreadable event";
  return isToldByHand(fields) ? told(fields) : known(SENTENCES, fields.type) ?? said(fields.type);
}

// What somebody told of a run may have the name of what the ledger itself tells, and must not be taken for it.
function isToldByHand({ facts }) {
  return typeof facts === "object" && facts !== null && "step" in facts && "side_effect" in facts;
}

function told({ type, facts }) {
  const step = isText(facts.step) ? `, at step ${facts.step}` : "";
  const skipped = facts.status === "skipped" ? " (told before, so it does not count again)" : "";
  return `Told by hand: ${said(type)}${step}${skipped}`;
}

function stepItem(event) {
  const item = make("li", event.problems.length ? "bad" : "");
  item.append(make("time", "mono", clock(event.fields.at)), make("span", "", sentenceOf(event)), actorOf(event));
  return item;
}

function actorOf(event) {
  const { id, kind, via } = event.fields.actor;
  return make("span", "quiet", `${id} (${kind}, by ${said(via)})`);
}

function timelineItem(event) {
  const item = make("li", event.problems.length ? "bad" : "");
  if (event.index !== null) item.id = `entry-${event.index}`;
  const details = make("details");
  const summary = make("summary");
  const fields = event.fields;
  summary.append(make("span", "seq mono", fields ? `#${fields.seq}` : "?"));
  summary.append(make("time", "mono", fields ? clock(fields.at) : ""));
  const what = make("span", "what", sentenceOf(event));
  if (isText(fields?.tool)) what.append(" ", make("span", "mono quiet", fields.tool));
  summary.append(what);
  summary.append(isText(fields?.status) ? chip(fields.status) : make("span"));
  const isBad = event.problems.length > 0;
  summary.append(make("span", isBad ? "fits alarm" : "fits", isBad ? "✕ does not fit" : "✓ fits"));
  details.append(summary);
  details.open = event.problems.length > 0;
  item.append(folded(details, () => details.append(eventPage(event))));
  return item;
}

function eventPage(event) {
  const page = make("div", "event");
  for (const problem of event.problems) {
    const box = make("div", "problem");
    box.append(make("p", "", problem.what), ...contrast(problem));
    page.append(box);
  }
  const rows = make("dl", "rows");
  const add = (name, value, style) => {
    if (value !== null) rows.append(make("dt", "", name), make("dd", style, value));
  };
  add("Entry", event.index, "mono");
  add("Hash", event.hash, "mono");
  if (event.fields) {
    add("Follows", event.fields.prev, "mono");
    const { id, kind, via } = event.fields.actor;
    add("Actor", `${id} (${kind}, by ${said(via)})`);
  }
  page.append(rows);
  for (const payload of event.payloads) page.append(valueBlock(said(payload.field), payload));
  for (const one of event.absent) page.append(absentBlock(one));
  if (event.text !== null) {
    const body = make("div", "value");
    body.append(make("h4", "", "Event, as it was hashed"), show(make("pre"), laidOut(event.text), "\n"));
    page.append(body);
  }
  return page;
}
