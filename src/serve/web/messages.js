/* web/messages.js - a message as the page shows it. */
import { callBlock, copyText, element, MarkdownView } from "./markdown.js";

const MEASURED_MS = 100; /* a rate of less time than this means nothing */

function button(label, act) {
  const b = element("button", "small", label);
  b.type = "button";
  b.addEventListener("click", act);
  return b;
}

/* The arguments of a call with indents, or as they are while they are no JSON. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/* "120 tokens, 45.2 tokens/s, ..." of a reply that is over. */
export function figuresOf(message) {
  const u = message.usage, t = message.times, parts = [];
  if (u) {
    parts.push(`${u.completion_tokens} tokens`);
    if (t && u.completion_tokens > 1 && t.last - t.first > MEASURED_MS)
      parts.push(`${((1000 * (u.completion_tokens - 1)) / (t.last - t.first)).toFixed(1)} tokens/s`);
    const cached = u.prompt_tokens_details?.cached_tokens ?? 0;
    parts.push(`prompt ${u.prompt_tokens}${cached ? `, ${cached} cached` : ""}`);
  }
  if (t?.first) parts.push(`first after ${((t.first - t.begun) / 1000).toFixed(2)} s`);
  if (message.finish === "length") parts.push("cut at the longest length");
  if (message.stopped) parts.push("stopped");
  return parts;
}

export class UserView {
  constructor(message, { edit }) {
    this.text = element("div", "text", message.content);
    this.root = element("article", "message user", element("h2", "hidden", "You"), this.text,
                        element("div", "foot", button("Edit", edit)));
  }

  update() {}
}

export class ToolView {
  constructor(message) {
    this.root = element("article", "message tool", element("h2", "", "Tool result"), element("div", "text", message.content));
  }

  update() {}
}

export class ReplyView {
  /* again(): a fresh reply; results(texts): what the calls gave. */
  constructor(message, { again, results }) {
    this.message = message;
    this.act = { again, results };
    this.thought = document.createTextNode("");
    this.summary = element("summary");
    this.thinking = element("details", "thinking", this.summary, element("div", "", this.thought));
    this.text = element("div", "text");
    this.markdown = new MarkdownView(this.text);
    this.calls = element("div", "calls");
    this.foot = element("div", "foot");
    this.author = element("h2");
    this.root = element("article", "message assistant", this.author, this.thinking, this.text, this.calls,
                        this.foot);
  }

  /* busy: it is still written; last: nothing follows it; note: what the server is at. */
  update(busy, last, note = "") {
    const m = this.message, reasoning = (m.reasoning ?? "").trim();
    this.author.textContent = m.model || "weir";
    this.thinking.hidden = reasoning === "";
    if (reasoning.startsWith(this.thought.data)) this.thought.appendData(reasoning.slice(this.thought.data.length));
    else this.thought.data = reasoning;
    const now = busy && m.content === "" && !m.tool_calls;
    this.summary.textContent = now ? "Thinking…" : "Thinking";
    this.markdown.show(m.content);
    this.text.classList.toggle("waiting", busy && m.content === "");
    this.calls.replaceChildren(...(m.tool_calls ?? []).map((c) => callBlock(c.function.name, pretty(c.function.arguments))));
    if (last && !busy && m.tool_calls?.length && !m.stopped && !m.error) this.calls.append(this.resultForm());
    this.root.setAttribute("aria-busy", String(busy));
    this.foot.replaceChildren(...(busy ? [note] : this.footer(last)));
  }

  resultForm() {
    const areas = this.message.tool_calls.map(() => element("textarea"));
    const labels = areas.map((a, i) =>
      element("label", "result", `Result of ${this.message.tool_calls[i].function.name}`, a));
    return element("div", "", ...labels, button("Send results", () => this.act.results(areas.map((a) => a.value))));
  }

  footer(last) {
    const m = this.message, parts = figuresOf(m).map((t) => element("span", "", t));
    if (m.error) {
      const alert = element("span", "error", m.error);
      alert.setAttribute("role", "alert");
      parts.unshift(alert);
    }
    if (m.content) {
      const copy = button("Copy", async () => {
        await copyText(m.content);
        copy.textContent = "Copied";
      });
      parts.push(copy);
    }
    if (last) parts.push(button("Again", this.act.again));
    return parts;
  }
}
