/* web/chat.js - one request to /v1/chat/completions, and its stream of events. */

/* The numbers of the settings dialog, as the request calls them. */
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "presence_penalty", "repetition_penalty", "max_tokens", "seed"];

export function authorization(settings) {
  return settings.api_key ? { Authorization: `Bearer ${settings.api_key}` } : {};
}

/* The calls of a message that the model has finished: what was cut off may be no JSON. */
function wholeCalls(m) {
  const cut = m.stopped || m.error || m.finish === "length";
  return cut ? [] : (m.tool_calls ?? []);
}

/* What the server is sent of a message: none of the page's own notes on it. */
function plainMessage(m) {
  const out = { role: m.role, content: m.content };
  if (m.reasoning) out.reasoning_content = m.reasoning;
  if (wholeCalls(m).length) out.tool_calls = m.tool_calls;
  if (m.tool_call_id) out.tool_call_id = m.tool_call_id;
  return out;
}

/* Throws where the settings are no JSON; the dialog has checked them. */
export function requestBody(messages, settings) {
  const body = { stream: true, stream_options: { include_usage: true }, messages: [] };
  if (settings.system?.trim()) body.messages.push({ role: "system", content: settings.system });
  body.messages.push(...messages.filter((m) => m.role !== "assistant" || m.content || wholeCalls(m).length).map(plainMessage));
  for (const name of NUMBERS) {
    const text = (settings[name] ?? "").trim();
    if (text !== "" && Number.isFinite(Number(text))) body[name] = Number(text);
  }
  if (settings.model) body.model = settings.model;
  if (settings.thinking) body.enable_thinking = settings.thinking === "on";
  if (settings.tools?.trim()) body.tools = JSON.parse(settings.tools);
  return body;
}

/* The lines of a stream of bytes, without their ends. */
async function* linesOf(stream) {
  const reader = stream.getReader(), decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split(/\r?\n/);
      rest = lines.pop();
      yield* lines;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export class ChatError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function failure(response) {
  const text = await response.text();
  let message = text.slice(0, 500);
  try {
    message = JSON.parse(text).error.message ?? message;
  } catch { /* no JSON: as it is */ }
  if (response.status === 401) message = "This server asks for a key: enter it under Settings.";
  return new ChatError(message || `status ${response.status}`, response.status);
}

/* Adds a piece of a tool call to the calls so far. */
function addCall(calls, piece) {
  const i = piece.index ?? 0;
  calls[i] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
  if (piece.id) calls[i].id = piece.id;
  calls[i].function.name += piece.function?.name ?? "";
  calls[i].function.arguments += piece.function?.arguments ?? "";
}

function addDelta(message, delta) {
  message.reasoning = (message.reasoning ?? "") + (delta.reasoning_content ?? delta.reasoning ?? "");
  message.content += delta.content ?? "";
  for (const piece of delta.tool_calls ?? []) addCall((message.tool_calls ??= []), piece);
}

/* Streams a reply into `message`, calling changed(read, total) after each piece; read and total, of
 * the prompt, come while the server says so.  Ends normally when the reply is whole. */
export async function streamReply({ body, settings, signal, message, changed }) {
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream", ...authorization(settings) };
  const response = await fetch("v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!response.ok) throw await failure(response);
  for await (const line of linesOf(response.body)) {
    const alive = /^: keepalive (\d+)\/(\d+)/.exec(line);
    if (alive) changed(Number(alive[1]), Number(alive[2]));
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new ChatError(event.error.message ?? "the server gave up");
    if (event.model) message.model = event.model;
    if (event.usage) message.usage = event.usage;
    const choice = event.choices?.[0];
    if (choice?.delta) addDelta(message, choice.delta);
    if (choice?.finish_reason) message.finish = choice.finish_reason;
    changed();
  }
  throw new ChatError("The connection ended before the reply did.");
}
