/* web/app.js - the page: conversations at the side, messages, the field to write in, settings.
 *
 * One reply is written at a time; it goes on while another conversation is looked at. */
import { authorization, requestBody, streamReply } from "./chat.js";
import { bytes, watchServer } from "./figures.js";
import { element } from "./markdown.js";
import { ReplyView, ToolView, UserView } from "./messages.js";
import * as store from "./store.js";

const $ = (id) => document.getElementById(id);
const SHOW_MS = 50, SAVE_MS = 2000, SPOKEN = 1500; /* the last: characters of a reply that are read aloud */

let settings = store.loadSettings();
let conversation = store.newConversation();
let views = [];
let editing = -1; /* the index of the message that is written anew */
let reply = null; /* what is being written: { conversation, message, controller, note, timer, saved } */

/* ---- messages ---- */

const last = (list) => list[list.length - 1];
const isWriting = (message) => reply?.message === message;

function viewOf(message, i) {
  if (message.role === "user") return new UserView(message, { edit: () => beginEdit(i) });
  if (message.role === "tool") return new ToolView(message);
  return new ReplyView(message, { again: () => again(i), results: (texts) => sendResults(i, texts) });
}

function atEnd() {
  const log = $("log");
  return log.scrollHeight - log.scrollTop - log.clientHeight < 80;
}

function scrollToEnd() {
  $("log").scrollTop = $("log").scrollHeight;
}

function updateView(i, note) {
  const message = conversation.messages[i];
  views[i].update(isWriting(message), i === conversation.messages.length - 1, note);
}

function showConversation() {
  views = conversation.messages.map(viewOf);
  $("messages").replaceChildren(...views.map((v) => v.root));
  views.forEach((_, i) => updateView(i));
  $("empty").hidden = views.length > 0;
  $("title").textContent = conversation.title || "New chat";
  document.title = conversation.title ? `${conversation.title} – weir` : "weir";
  scrollToEnd();
  showList();
}

function showBusy() {
  const focused = [$("send"), $("stop"), document.body].includes(document.activeElement);
  $("send").hidden = reply !== null;
  $("stop").hidden = reply === null;
  if (focused) $("input").focus(); /* what had the focus may be gone */
}

function say(text) {
  $("status").textContent = text;
}

/* ---- the list of conversations ---- */

function conversationItem(c) {
  const open = element("button", "open", c.title || "New chat"), drop = element("button", "delete", "×");
  open.type = drop.type = "button";
  open.title = c.title;
  if (c.id === conversation.id) open.setAttribute("aria-current", "page");
  open.addEventListener("click", () => openConversation(c.id));
  drop.setAttribute("aria-label", `Delete ${c.title || "conversation"}`);
  drop.addEventListener("click", () => dropConversation(c));
  return element("li", "", open, drop);
}

function showList() {
  $("conversations").replaceChildren(...store.listConversations().map(conversationItem));
}

function setAddress() {
  const hash = conversation.messages.length > 0 ? `#${conversation.id}` : "";
  history.replaceState(null, "", location.pathname + location.search + hash);
}

function openConversation(id) {
  const found = reply?.conversation.id === id ? reply.conversation : store.loadConversation(id);
  conversation = found ?? store.newConversation();
  endEdit();
  setAddress();
  showConversation();
  showSide(false);
  $("input").focus();
}

function dropConversation(c) {
  if (!confirm(`Delete "${c.title}"?`)) return;
  if (reply?.conversation.id === c.id) {
    reply.dropped = true;
    reply.controller.abort();
  }
  store.deleteConversation(c.id);
  if (c.id === conversation.id) openConversation("");
  else showList();
}

function showSide(shown) {
  $("side").classList.toggle("shown", shown);
  $("menu").setAttribute("aria-expanded", String(shown));
}

/* ---- writing ---- */

function save(c) {
  c.updated = Date.now();
  store.saveConversation(c);
}

function fitInput() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

function beginEdit(i) {
  editing = i;
  $("input").value = conversation.messages[i].content;
  $("editing").hidden = false;
  fitInput();
  $("input").focus();
}

function endEdit() {
  if (editing >= 0) $("input").value = "";
  editing = -1;
  $("editing").hidden = true;
  fitInput();
}

function send() {
  const text = $("input").value;
  if (reply || !text.trim()) return;
  if (editing >= 0) conversation.messages.length = editing;
  editing = -1;
  $("input").value = "";
  endEdit();
  conversation.messages.push({ role: "user", content: text });
  conversation.title ||= text.trim().split("\n")[0].slice(0, 80);
  write();
}

function again(i) {
  if (reply) return;
  conversation.messages.length = i;
  write();
}

function sendResults(i, texts) {
  if (reply) return;
  conversation.messages[i].tool_calls.forEach((call, k) =>
    conversation.messages.push({ role: "tool", tool_call_id: call.id, content: texts[k] }));
  write();
}

/* ---- a reply ---- */

/* Shows what has come, at most every SHOW_MS. */
function replyChanged(r, read, total) {
  const now = performance.now(), m = r.message;
  if (read !== undefined) r.note = `reading the prompt: ${read} of ${total} tokens`;
  else if (m.content || m.reasoning || m.tool_calls) {
    m.times.first ||= now;
    m.times.last = now;
    r.note = "";
  }
  r.timer ||= setTimeout(() => showReply(r), SHOW_MS);
}

function showReply(r) {
  clearTimeout(r.timer);
  r.timer = 0;
  if (performance.now() - r.saved > SAVE_MS && !r.dropped) {
    r.saved = performance.now();
    save(r.conversation);
  }
  if (r.conversation !== conversation) return;
  const follow = atEnd();
  updateView(conversation.messages.indexOf(r.message), r.note);
  if (follow) scrollToEnd();
}

function endReply(r) {
  reply = null;
  if (!r.dropped) save(r.conversation);
  showReply(r);
  showBusy();
  showList();
  const text = r.message.content;
  say(r.message.error ? "" : text.length > SPOKEN ? `${text.slice(0, SPOKEN)}… The reply goes on.` : text);
  lookAtServer();
}

/* Has the model write what follows the conversation's messages. */
async function write() {
  const body = requestBody(conversation.messages, settings), begun = performance.now();
  const message = { role: "assistant", content: "", times: { begun, first: 0, last: 0 } };
  const r = { conversation, message, controller: new AbortController(), note: "", timer: 0, saved: begun };
  conversation.messages.push(message);
  reply = r;
  save(conversation);
  setAddress();
  showConversation();
  showBusy();
  say("The reply is being written.");
  try {
    await streamReply({ body, settings, signal: r.controller.signal, message, changed: (read, total) => replyChanged(r, read, total) });
  } catch (e) {
    if (r.controller.signal.aborted) message.stopped = true;
    else message.error = e instanceof TypeError ? "The server was not reached, or the connection broke." : e.message;
  }
  endReply(r);
}

function stop() {
  reply?.controller.abort();
  $("input").focus();
}

/* ---- settings ---- */

async function loadModels() {
  const select = $("settings-form").elements.model;
  let names = [];
  try {
    const response = await fetch("v1/models", { headers: authorization(settings) });
    if (response.ok) names = (await response.json()).data.map((m) => m.id);
  } catch { /* the figures say that the server is not reached */ }
  if (settings.model && !names.includes(settings.model)) names.push(settings.model);
  select.replaceChildren(...["", ...names].map((n) => new Option(n || "the server's", n, false, n === (settings.model ?? ""))));
}

function openSettings() {
  for (const field of $("settings-form").elements) if (field.name) field.value = settings[field.name] ?? "";
  $("tools-error").hidden = true;
  $("settings").showModal();
  loadModels();
}

/* What is wrong with the tools, or "". */
function toolsError(text) {
  if (!text.trim()) return "";
  try {
    return Array.isArray(JSON.parse(text)) ? "" : "Tools: expected a JSON array.";
  } catch (e) {
    return `Tools: ${e.message}`;
  }
}

function closeSettings(event) {
  const found = {}, wrong = toolsError($("settings-form").elements.tools.value);
  event.preventDefault();
  $("tools-error").textContent = wrong;
  $("tools-error").hidden = wrong === "";
  if (wrong) return;
  for (const field of $("settings-form").elements) if (field.name && field.value) found[field.name] = field.value;
  settings = found;
  store.saveSettings(settings);
  $("settings").close();
  lookAtServer();
}

function resetSettings() {
  for (const field of $("settings-form").elements) if (field.name && field.name !== "api_key") field.value = "";
}

/* ---- figures ---- */

function showFigures(f, why) {
  const percent = (x) => `${Math.round(100 * x)} %`;
  $("f-state").textContent = f ? "ready" : why;
  $("f-rate").textContent = f ? f.rate.toFixed(f.rate < 10 ? 1 : 0) : "–";
  $("f-running").textContent = f ? f.running : "–";
  $("f-waiting").textContent = f ? f.waiting : "–";
  $("f-cached").textContent = f ? percent(f.cached) : "–";
  $("f-pool").textContent = f ? percent(f.pool) : "–";
  $("f-memory").textContent = f ? bytes(f.memory) : "–";
}

const lookAtServer = watchServer({ settings: () => settings, busy: () => reply !== null, show: showFigures });

/* ---- what the person does ---- */

$("composer").addEventListener("submit", (e) => {
  e.preventDefault();
  send();
});
$("input").addEventListener("input", fitInput);
$("input").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  send();
});
$("stop").addEventListener("click", stop);
$("new").addEventListener("click", () => openConversation(""));
$("skip").addEventListener("click", () => $("input").focus());
$("menu").addEventListener("click", () => showSide(!$("side").classList.contains("shown")));
$("cancel-edit").addEventListener("click", endEdit);
$("open-settings").addEventListener("click", openSettings);
$("cancel-settings").addEventListener("click", () => $("settings").close());
$("reset-settings").addEventListener("click", resetSettings);
$("settings-form").addEventListener("submit", closeSettings);
document.addEventListener("keydown", (e) => {
  if (e.key !== "Escape" || e.isComposing || $("settings").open) return;
  if (reply) stop();
  else if (editing >= 0) endEdit();
  else showSide(false);
});
addEventListener("storage", showList); /* another page of ours has written */
addEventListener("hashchange", () => openConversation(location.hash.slice(1)));
addEventListener("pagehide", () => {
  if (reply && !reply.dropped) save(reply.conversation);
});

openConversation(location.hash.slice(1));
