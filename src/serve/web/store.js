/* web/store.js - conversations, settings and the key, kept in this browser and nowhere else.
 *
 * Each conversation is one entry of localStorage, so that two open pages do not overwrite each
 * other's.  They are bounded: the oldest go first.  Where the browser keeps nothing (private
 * windows, full disks) all of it lives as long as the page. */

const PREFIX = "weir.chat.", SETTINGS = "weir.settings";
export const MAX_CONVERSATIONS = 100;
const MAX_CHARACTERS = 4_000_000; /* browsers keep about five million */

const memory = new Map();

function read(key) {
  if (memory.has(key)) return memory.get(key);
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remove(key) {
  memory.delete(key);
  try {
    localStorage.removeItem(key);
  } catch { /* it was not there */ }
}

/* False: only the page remembers. */
function write(key, text) {
  try {
    localStorage.setItem(key, text);
    memory.delete(key);
    return true;
  } catch {
    memory.set(key, text);
    return false;
  }
}

function keys() {
  const found = new Set(memory.keys());
  try {
    for (let i = 0; i < localStorage.length; i++) found.add(localStorage.key(i));
  } catch { /* memory alone */ }
  return [...found].filter((k) => k.startsWith(PREFIX));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/* ---- conversations: { id, title, updated, messages } ---- */

function valid(c) {
  return c && typeof c.id === "string" && Array.isArray(c.messages) && typeof c.updated === "number";
}

/* The latest first. */
export function listConversations() {
  const all = keys().map((k) => parse(read(k))).filter(valid);
  return all.sort((a, b) => b.updated - a.updated);
}

export function loadConversation(id) {
  const c = parse(read(PREFIX + id));
  return valid(c) ? c : null;
}

export function newConversation() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const id = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return { id, title: "", updated: Date.now(), messages: [] };
}

/* Makes room for `needed` characters by removing the oldest conversations but `id`'s own. */
function makeRoom(id, needed) {
  const others = listConversations().filter((c) => c.id !== id);
  let total = needed + others.reduce((n, c) => n + read(PREFIX + c.id).length, 0);
  while (others.length > 0 && (others.length >= MAX_CONVERSATIONS || total > MAX_CHARACTERS)) {
    const oldest = others.pop();
    total -= read(PREFIX + oldest.id).length;
    remove(PREFIX + oldest.id);
  }
  return others;
}

export function saveConversation(c) {
  const text = JSON.stringify(c), others = makeRoom(c.id, text.length);
  while (!write(PREFIX + c.id, text) && others.length > 0) remove(PREFIX + others.pop().id);
}

export function deleteConversation(id) {
  remove(PREFIX + id);
}

/* ---- settings: a flat object of texts ---- */

export function loadSettings() {
  const s = parse(read(SETTINGS));
  return s && typeof s === "object" && !Array.isArray(s) ? s : {};
}

export function saveSettings(s) {
  write(SETTINGS, JSON.stringify(s));
}
