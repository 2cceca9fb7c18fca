/* web/markdown.js - Markdown of a model's reply to nodes.
 *
 * The text is hostile: it becomes text nodes and a few kinds of element, never markup.  Links keep
 * http, https and mailto; pictures are not loaded.  What is not understood is shown as it is
 * written.  Time is linear in the text but for nesting, which is bounded. */

const MAX_DEPTH = 6, MAX_LINK = 2000, MAX_LINE = 2000; /* the last: of headings and tables, in characters */

/* Children are nodes, texts and lists of these.  (A list that is spread into a call may have more
 * members than a call has arguments.) */
export function element(name, className, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  for (const child of children.flat()) e.append(child);
  return e;
}

/* Also where the page has no clipboard: it has none over plain HTTP from another machine. */
export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = element("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/* ---- inside a paragraph ---- */

const ESCAPED = /[\\`*_{}[\]()#+\-.!~>|]/;
const WORD = /[\p{L}\p{N}]/u;

function safeAddress(text) {
  return /^(https?:\/\/|mailto:)[^\s<>"]+$/i.test(text) ? text : null;
}

function link(address, children) {
  const a = element("a", "", children);
  a.href = address;
  a.rel = "noopener noreferrer nofollow";
  a.target = "_blank";
  a.title = address;
  return a;
}

/* Where the run of `mark` that closes begins, or -1.  `none` remembers marks that do not come
 * again, so that a text full of openers is searched once. */
function closing(text, mark, from, none) {
  if (none.has(mark)) return -1;
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    if (at === from || /\s/.test(text[at - 1])) continue;
    if (mark.length === 1 && (text[at + 1] === mark || text[at - 1] === mark)) {
      while (text[at + 1] === mark) at++;
      continue;
    }
    if (mark[0] === "_" && WORD.test(text[at + mark.length] ?? " ")) continue;
    return at;
  }
  none.add(mark);
  return -1;
}

/* `code`: the ticks that open at `at`, and their content; null where nothing closes them. */
function codeSpan(text, at, none) {
  let n = 1;
  while (text[at + n] === "`") n++;
  const ticks = "`".repeat(Math.min(n, 64));
  if (n > 64 || none.has(ticks)) return { skip: n };
  for (let end = text.indexOf(ticks, at + n); end >= 0; ) {
    let m = n;
    while (text[end + m] === "`") m++;
    if (m === n) {
      const inside = text.slice(at + n, end).replace(/\n/g, " ");
      const padded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
      return { node: element("code", "", padded ? inside.slice(1, -1) : inside), skip: end + n - at };
    }
    end = text.indexOf(ticks, end + m);
  }
  none.add(ticks);
  return { skip: n };
}

/* [label](address) at `at`. */
function bracket(text, at, depth) {
  const near = text.slice(at, at + MAX_LINK), close = near.indexOf("](");
  const end = close < 0 ? -1 : near.indexOf(")", close);
  if (end < 0) return null;
  const address = safeAddress(near.slice(close + 2, end).trim().split(/\s/)[0]);
  if (!address) return null;
  return { node: link(address, inline(near.slice(1, close), depth + 1, true)), skip: end + 1 };
}

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

function emphasis(text, at, depth, inLink, none) {
  for (const [mark, name] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const from = at + mark.length;
    if (/\s/.test(text[from] ?? " ") || (mark.length === 1 && text[from] === mark)) continue;
    if (mark[0] === "_" && at > 0 && WORD.test(text[at - 1])) continue;
    const end = closing(text, mark, from, none);
    if (end < 0) continue;
    return { node: element(name, "", inline(text.slice(from, end), depth + 1, inLink)), skip: end + mark.length - at };
  }
  return null;
}

function bareAddress(text, at) {
  if (at > 0 && WORD.test(text[at - 1])) return null;
  const found = /^https?:\/\/[^\s<>"`]+/i.exec(text.slice(at, at + MAX_LINK));
  if (!found) return null;
  const address = found[0].replace(/[.,;:!?)\]}'*_]+$/, "");
  return address.length > 8 ? { node: link(address, [address]), skip: address.length } : null;
}

/* The nodes of a text without blocks. */
export function inline(text, depth = 0, inLink = false) {
  const nodes = [], none = new Set();
  let plain = "";
  const push = (node) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  for (let at = 0; at < text.length; ) {
    const c = text[at];
    let found = null;
    if (c === "\\" && ESCAPED.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    if (c === "\n") {
      plain = plain.trimEnd();
      if (plain.endsWith("\\")) plain = plain.slice(0, -1);
      found = { node: element("br"), skip: 1 };
    } else if (c === "`") {
      found = codeSpan(text, at, none);
      if (!found.node) {
        plain += text.slice(at, at + found.skip);
        at += found.skip;
        continue;
      }
    } else if (depth < MAX_DEPTH) {
      if (c === "*" || c === "_" || c === "~") found = emphasis(text, at, depth, inLink, none);
      else if (!inLink && c === "[") found = bracket(text, at, depth);
      else if (!inLink && (c === "h" || c === "H")) found = bareAddress(text, at);
    }
    if (found) {
      push(found.node);
      at += found.skip;
    } else if (c === "*" || c === "_" || c === "~") { /* a run that opens nothing is one thing */
      do plain += text[at++];
      while (text[at] === c);
    } else {
      plain += c;
      at++;
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^( *)(?:([-*+])|(\d{1,9})[.)])(?:\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^\|? *:?-+:? *(\| *:?-+:? *)*\|?$/;
const CALL = /^ *<tool_call>/;

function heading(line) {
  return line.length <= MAX_LINE ? HEADING.exec(line) : null;
}

function isTableRule(line) {
  return line.length <= MAX_LINE && TABLE_RULE.test(line.trim());
}

function beginsBlock(line) {
  return FENCE.test(line) || heading(line) || RULE.test(line) || ITEM.test(line) || QUOTE.test(line) || CALL.test(line);
}

/* Each reader takes the lines from `at` on and gives { kind, end, ... }; end: the next line. */

function closesFence(line, marks) {
  const text = line.trim();
  return text.startsWith(marks) && text === marks[0].repeat(text.length);
}

function readFence(lines, at) {
  const [, marks, info] = FENCE.exec(lines[at]);
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end], marks)) end++;
  const code = lines.slice(at + 1, end).join("\n");
  return { kind: "code", end: Math.min(end + 1, lines.length), code, language: info.trim().split(/\s/)[0].slice(0, 40) };
}

function readQuote(lines, at) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  return { kind: "quote", end, lines: lines.slice(at, end).map((l) => l.replace(QUOTE, "")) };
}

function readList(lines, at) {
  const first = ITEM.exec(lines[at]), indent = first[1].length, ordered = first[3] !== undefined;
  const items = [];
  let end = at, loose = false;
  for (; end < lines.length; end++) {
    const line = lines[end], m = ITEM.exec(line);
    const spaces = line.length - line.trimStart().length;
    if (m && spaces <= indent + 1 && !RULE.test(line)) {
      if ((m[3] !== undefined) !== ordered || spaces < indent) break;
      items.push([line.slice(m[0].length)]);
      loose = false;
    } else if (!line.trim()) {
      if (loose) break;
      loose = true;
      items.at(-1).push("");
    } else if (spaces > indent || (!loose && !beginsBlock(line))) {
      items.at(-1).push(line.slice(Math.min(spaces, indent + (ordered ? 3 : 2))));
      loose = false;
    } else {
      break;
    }
  }
  return { kind: "list", end, ordered, start: ordered ? Number(first[3]) : 1, items };
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split("|").slice(0, 50).map((c) => c.trim());
}

function readTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end++;
  return { kind: "table", end, head: cells(lines[at]), rows: lines.slice(at + 2, end).map(cells) };
}

function readCall(lines, at) {
  let end = at;
  while (end < lines.length && !lines[end].includes("</tool_call>")) end++;
  const text = lines.slice(at, end + 1).join("\n").split("<tool_call>")[1].split("</tool_call>")[0].trim();
  return { kind: "call", end: Math.min(end + 1, lines.length), text };
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !beginsBlock(lines[end])) end++;
  return { kind: "paragraph", end, text: lines.slice(at, end).map((l) => l.trimStart()).join("\n").trimEnd() };
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return readFence(lines, at);
  const head = heading(line);
  if (head) return { kind: "heading", end: at + 1, level: head[1].length, text: head[2] };
  if (RULE.test(line)) return { kind: "rule", end: at + 1 };
  if (CALL.test(line)) return readCall(lines, at);
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at);
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, at);
  if (line.includes("|") && isTableRule(lines[at + 1] ?? "")) return readTable(lines, at);
  return readParagraph(lines, at);
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const block = readBlock(lines, at, depth);
    block.key = lines.slice(at, block.end).join("\n");
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

/* ---- blocks to nodes ---- */

function codeBlock(block) {
  const copy = element("button", "small", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await copyText(block.code);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  const pre = element("pre", "", element("code", "", block.code));
  pre.tabIndex = 0; /* it scrolls */
  return element("div", "code", element("div", "code-head", element("span", "", block.language || "text"), copy), pre);
}

/* A tool call as the page shows it, wherever it comes from. */
export function callBlock(name, text) {
  const pre = element("pre", "", element("code", "", text));
  pre.tabIndex = 0;
  return element("div", "call", element("div", "call-head", "Tool call", name ? ": " : "", element("b", "", name)), pre);
}

function listBlock(block, depth) {
  const list = element(block.ordered ? "ol" : "ul");
  if (block.ordered && block.start !== 1) list.start = block.start;
  for (const lines of block.items) {
    const inner = blocksOf(lines, depth + 1);
    list.append(element("li", "", inner.flatMap((b) => (b.kind === "paragraph" ? inline(b.text) : [blockNode(b, depth + 1)]))));
  }
  return list;
}

function tableBlock(block) {
  const row = (name, texts) => element("tr", "", texts.map((t) => element(name, "", inline(t))));
  const body = element("tbody", "", block.rows.map((r) => row("td", r)));
  const table = element("table", "", element("thead", "", row("th", block.head)), body);
  return element("div", "table", table);
}

function blockNode(block, depth) {
  switch (block.kind) {
    case "code": return codeBlock(block);
    case "heading": return element(`h${Math.min(block.level + 2, 6)}`, "", inline(block.text));
    case "rule": return element("hr");
    case "quote": return element("blockquote", "", blocksOf(block.lines, depth + 1).map((b) => blockNode(b, depth + 1)));
    case "list": return listBlock(block, depth);
    case "table": return tableBlock(block);
    case "call": return callBlock(/<function=([^>\s]{1,100})>/.exec(block.text)?.[1] ?? "", block.text);
    default: return element("p", "", inline(block.text));
  }
}

/* Shows a text in `root`, and again when it has grown: blocks that are as before keep their nodes,
 * so that a selection stays and a stream costs what is new. */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.keys = [];
  }

  show(text) {
    const blocks = blocksOf(text.replace(/\r\n?/g, "\n").split("\n"), 0);
    blocks.forEach((block, i) => {
      if (this.keys[i] === block.key) return;
      const node = blockNode(block, 0), old = this.root.children[i];
      if (old) old.replaceWith(node);
      else this.root.append(node);
      this.keys[i] = block.key;
    });
    while (this.root.children.length > blocks.length) this.root.lastElementChild.remove();
    this.keys.length = blocks.length;
  }
}
