/* web/figures.js - how the server is, from /metrics, every few seconds while the page is seen. */
import { authorization } from "./chat.js";

const BUSY_MS = 1000, IDLE_MS = 4000;

/* name{tier="memory"} or name -> value, without the labels that say which model. */
export function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const m = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m) continue;
    const tier = /tier="(\w+)"/.exec(m[2] ?? "");
    found.set(tier ? `${m[1]}.${tier[1]}` : m[1], Number(m[3]));
  }
  return found;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

/* Calls show({ running, waiting, rate, cached, pool, memory }) with each look, or show(null, why). */
export function watchServer({ settings, busy, show }) {
  let before = null, timer = 0;

  function figures(m) {
    const now = performance.now(), sampled = m.get("vllm:generation_tokens_total") ?? 0;
    const seconds = before ? (now - before.now) / 1000 : 0;
    const rate = seconds > 0 ? Math.max(0, sampled - before.sampled) / seconds : 0;
    before = { now, sampled };
    const prompt = m.get("vllm:prefix_cache_queries_total") ?? 0;
    return {
      running: m.get("vllm:num_requests_running") ?? 0,
      waiting: m.get("vllm:num_requests_waiting") ?? 0,
      rate,
      cached: prompt > 0 ? (m.get("vllm:prefix_cache_hits_total") ?? 0) / prompt : 0,
      pool: m.get("vllm:kv_cache_usage_perc") ?? 0,
      memory: m.get("q35_cache_bytes.memory") ?? 0,
    };
  }

  async function look() {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      try {
        const response = await fetch("metrics", { headers: authorization(settings()), signal: AbortSignal.timeout(5000) });
        if (response.ok) show(figures(parseMetrics(await response.text())));
        else show(null, response.status === 401 ? "key needed" : `status ${response.status}`);
      } catch {
        before = null;
        show(null, "not reached");
      }
    }
    clearTimeout(timer);
    timer = setTimeout(look, busy() ? BUSY_MS : IDLE_MS);
  }

  document.addEventListener("visibilitychange", () => {
    before = null;
    look();
  });
  look();
  return look;
}
