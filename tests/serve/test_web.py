"""The web page: how its files are served, and, where a Chromium is installed, what it does.

In the browser, most replies are not the model's but `Script`'s: a relay in front of the server
that passes everything on but the chats, so that a test says what comes and when.
"""
import hashlib
import http.client
import http.server
import json
import pathlib
import queue
import re
import tempfile
import threading
import unittest

import browser
from support import CHAT, SOURCE, Case

PAGES = SOURCE / "src" / "serve" / "web"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Files(Case):
    args = ("--ctx", "256", "--api-key", "alpha")

    def test_every_file(self):
        media = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
                 "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
        for file in sorted(PAGES.iterdir()):
            with self.subTest(file=file.name):
                answer = self.server.get("/web/" + file.name)
                self.assertEqual((answer.status, answer.body), (200, file.read_bytes()))
                self.assertEqual(answer.headers["Content-Type"], media[file.suffix[1:]])
                self.assertEqual(answer.headers["ETag"], f'"{hashlib.sha256(answer.body).hexdigest()[:32]}"')
                self.assertEqual(answer.headers["Cache-Control"], "no-cache")
                self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
                head = self.server.ask("HEAD", "/web/" + file.name)
                self.assertEqual((head.status, head.body), (200, b""))
                self.assertEqual((head.headers["Content-Length"], head.headers["ETag"]),
                                 (str(len(answer.body)), answer.headers["ETag"]))

    def test_known_content_is_not_sent_again(self):
        tag = self.server.get("/web/app.js").headers["ETag"]
        for known, status in [(tag, 304), (f'"x", W/{tag}', 304), ("*", 304), ('"x"', 200)]:
            answer = self.server.get("/web/app.js", headers={"If-None-Match": known})
            self.assertEqual((answer.status, bool(answer.body)), (status, status == 200), known)
            self.assertEqual(answer.headers["ETag"], tag)

    def test_root_is_the_page_for_browsers_alone(self):
        page = self.server.get("/", headers=HTML)
        self.assertEqual((page.status, page.body), (200, (PAGES / "index.html").read_bytes()))
        self.assertIn("Accept", page.headers.get_all("Vary"))
        for headers in [{}, {"Accept": "*/*"}, {"Accept": "application/json"}]:
            other = self.server.get("/", headers=headers)
            self.assertEqual((other.status, "<" in other.body.decode()), (200, False))
            self.assertIn("Accept", other.headers.get_all("Vary"))
        self.assertEqual(self.server.ask("HEAD", "/", headers=HTML).headers["Content-Length"], str(len(page.body)))
        self.assertEqual(self.server.post("/", {}, headers=HTML).status, 401)

    def test_policy(self):
        policy = self.server.get("/", headers=HTML).headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        self.assertEqual(rules["default-src"], "'none'")
        self.assertEqual((rules["script-src"], rules["style-src"], rules["connect-src"]), ("'self'",) * 3)
        self.assertEqual((rules["frame-ancestors"], rules["base-uri"], rules["trusted-types"]), ("'none'",) * 3)
        self.assertNotIn("unsafe", policy)

    def test_the_page_loads_nothing_from_elsewhere(self):
        for file in PAGES.iterdir():
            text = file.read_text()
            self.assertEqual(re.findall(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\(|innerHTML|outerHTML|document\.write|eval\(""",
                                        text), [], file.name)
        page = (PAGES / "index.html").read_text()
        self.assertIsNone(re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", page))
        for name in re.findall(r"""(?:src|href)="([^"#]+)""", page):
            self.assertTrue((PAGES / name.removeprefix("web/")).is_file(), name)

    def test_unknown_files(self):
        for path in ["/web/nope.js", "/web/../web/app.js", "/web/%2e%2e/serve.c"]:
            self.assertEqual(self.server.get(path).status, 404, path)


class Off(Case):
    args = ("--ctx", "256", "--no-web")

    def test_nothing_is_served(self):
        page = self.server.get("/", headers=HTML)
        self.assertEqual((page.status, b"<" in page.body), (200, False))
        answer = self.server.get("/web/app.js")
        self.assertEqual((answer.status, answer.error["code"]), (404, "not_found"))


class Script(http.server.ThreadingHTTPServer):
    """Answers chats with what `say` and `end` are given; everything else is asked of the server."""

    daemon_threads = True

    def __init__(self, port):
        self.to = port
        self.pieces = queue.Queue() # of the one reply at a time
        self.bodies = queue.Queue()
        self.key = None # of the last request
        self.hung_up = threading.Event()
        super().__init__(("127.0.0.1", 0), Relay)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def say(self, **delta):
        self.pieces.put({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    def end(self, finish="stop", completion=7, cached=3):
        self.pieces.put({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        self.pieces.put({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": completion, "total_tokens": 5 + completion,
                                                  "prompt_tokens_details": {"cached_tokens": cached}}})
        self.pieces.put("[DONE]")

    def reply(self, **delta):
        self.say(**delta)
        self.end()


class Relay(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.to, timeout=60)
        connection.request("GET", self.path, headers={k: v for k, v in self.headers.items() if k != "Connection"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "date", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.key = self.headers["Authorization"]
        self.server.bodies.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        piece = None
        try:
            while piece != "[DONE]":
                try:
                    piece = self.server.pieces.get(timeout=0.1)
                except queue.Empty:
                    self.wfile.write(b": still here\n\n")
                    continue
                self.wfile.write(f"data: {piece if isinstance(piece, str) else json.dumps(piece)}\n\n".encode())
        except OSError:
            self.server.hung_up.set()


LAST = "[...document.querySelectorAll('.message.assistant')].at(-1)"
REPLY = LAST + "?.querySelector('.text').innerText"
IDLE = "!document.getElementById('send').hidden"


@unittest.skipIf(browser.find() is None, "no Chromium is installed")
class Page(Case):
    args = ("--ctx", "512")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = Script(cls.server.port)
        cls.addClassCleanup(cls.script.close)
        profile = tempfile.TemporaryDirectory(prefix="weir-browser-", ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.page = browser.Browser(browser.find(), pathlib.Path(profile.name))
        cls.addClassCleanup(cls.page.close)

    def setUp(self):
        self.script.hung_up.clear()
        self.script.pieces = queue.Queue()
        self.script.bodies = queue.Queue()
        self.fresh(self.script.server_address[1])

    def tearDown(self):
        self.assertEqual(self.page.errors, [])

    def fresh(self, port):
        self.url = f"http://127.0.0.1:{port}/"
        self.page.open("about:blank") # no page is left that could still write
        self.page.call("Storage.clearDataForOrigin", origin=self.url[:-1], storageTypes="local_storage")
        self.page.errors.clear()
        self.page.open(self.url)

    def send(self, text):
        self.page.evaluate("document.getElementById('input').focus()")
        self.page.type(text)
        self.page.press("Enter")

    def test_a_reply_of_the_model(self):
        self.fresh(self.server.port)
        self.page.wait("document.activeElement.id === 'input'")
        self.page.evaluate("document.getElementById('open-settings').click()")
        self.page.wait("document.querySelector('select[name=model]').options.length === 2")
        self.page.evaluate("""const f = document.getElementById('settings-form').elements;
            f.max_tokens.value = '12'; f.seed.value = '1'; f.thinking.value = 'off'; f.model.value = 'demo';
            document.querySelector('#settings-form [type=submit]').click()""")
        self.send("Tell me a story.")
        self.page.wait(IDLE + " && " + REPLY)
        alone = self.server.chat("Tell me a story.", max_tokens=12, seed=1).json["choices"][0]["message"]["content"]
        self.assertEqual(" ".join(self.page.evaluate(REPLY).split()), " ".join(alone.split()))
        self.assertIn("12 tokens", self.page.evaluate(LAST + ".querySelector('.foot').innerText"))
        self.page.wait("document.getElementById('f-state').innerText === 'ready'")
        self.page.wait("document.getElementById('f-waiting').innerText === '0'")
        self.page.wait("/B$/.test(document.getElementById('f-memory').innerText)")

    def test_streaming_and_settings(self):
        self.page.evaluate("""const f = document.getElementById('settings-form').elements;
            document.getElementById('open-settings').click(); f.temperature.value = '0.5'; f.system.value = 'Be brief.';
            f.api_key.value = 'k'; document.querySelector('#settings-form [type=submit]').click()""")
        self.page.evaluate("document.getElementById('input').focus()")
        self.page.type("one")
        self.page.press("Enter", shift=True)
        self.page.type("two")
        self.page.press("Enter")
        self.script.say(content="Hel")
        self.page.wait(REPLY + " === 'Hel'")
        self.assertEqual(self.page.evaluate(LAST + ".getAttribute('aria-busy')"), "true")
        self.script.say(content="lo **th")
        self.page.wait(REPLY + " === 'Hello **th'")
        self.script.reply(content="ere**")
        self.page.wait(IDLE)
        self.assertEqual(self.page.evaluate(LAST + ".querySelector('strong').innerText"), "there")
        self.assertEqual(self.page.evaluate("document.getElementById('status').innerText"), "Hello **there**")
        foot = self.page.evaluate(LAST + ".querySelector('.foot').innerText")
        self.assertIn("7 tokens", foot)
        self.assertIn("prompt 5, 3 cached", foot)
        body = self.script.bodies.get(timeout=10)
        self.assertEqual((body["temperature"], body["stream"]), (0.5, True))
        self.assertEqual(body["messages"], [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one\ntwo"}])
        self.assertNotIn("top_p", body)
        self.assertEqual(self.script.key, "Bearer k")
        self.page.evaluate("document.getElementById('open-settings').click()")
        self.page.evaluate("document.querySelector('input[name=api_key]').value = ''; document.querySelector('#settings-form [type=submit]').click()")
        self.assertEqual(self.page.evaluate("localStorage.getItem('weir.settings')"), '{"system":"Be brief.","temperature":"0.5"}')

    def test_stop(self):
        for how in ["button", "Escape"]:
            self.script.hung_up.clear()
            self.send("Go on.")
            self.script.say(content="half a")
            self.page.wait(REPLY + " === 'half a'")
            if how == "Escape":
                self.page.press("Escape")
            else:
                self.page.evaluate("document.getElementById('stop').click()")
            self.page.wait(IDLE)
            self.assertTrue(self.script.hung_up.wait(30), "the connection is still open")
            self.assertIn("stopped", self.page.evaluate(LAST + ".querySelector('.foot').innerText"))
        self.assertEqual([m["content"] for m in list(self.script.bodies.queue)[1]["messages"]], ["Go on.", "half a", "Go on."])

    def test_thinking_is_folded(self):
        self.send("Think.")
        self.script.say(reasoning_content="<b>hm</b>")
        self.page.wait(LAST + "?.querySelector('summary').innerText === 'Thinking…'")
        self.script.reply(content="Yes.")
        self.page.wait(IDLE)
        self.assertFalse(self.page.evaluate(LAST + ".querySelector('details').open"))
        self.assertEqual(self.page.evaluate(LAST + ".querySelector('details div').textContent"), "<b>hm</b>")
        self.assertEqual(self.page.evaluate(REPLY), "Yes.")

    def test_tool_calls(self):
        self.send("Weather?")
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
        self.script.say(tool_calls=[call])
        self.script.say(tool_calls=[{"index": 0, "function": {"arguments": '{"city":'}}])
        self.script.say(tool_calls=[{"index": 0, "function": {"arguments": '"Rome"}'}}])
        self.script.end("tool_calls")
        self.page.wait(IDLE)
        self.assertIn('"city": "Rome"', self.page.evaluate(LAST + ".querySelector('.call pre').innerText"))
        self.page.evaluate(f"const a = {LAST}.querySelector('textarea'); a.value = 'sunny'; a.closest('div').querySelector('button').click()")
        self.script.reply(content="Sunny.")
        self.page.wait(IDLE + " && " + REPLY + " === 'Sunny.'")
        sent = list(self.script.bodies.queue)[1]["messages"]
        self.assertEqual(sent[1]["tool_calls"][0]["function"], {"name": "get_weather", "arguments": '{"city":"Rome"}'})
        self.assertEqual(sent[2], {"role": "tool", "tool_call_id": "call_1", "content": "sunny"})

    def test_conversations_survive_a_reload(self):
        for text in ["First.", "Second."]:
            self.page.evaluate("document.getElementById('new').click()")
            self.send(text)
            self.script.reply(content="Re: " + text)
            self.page.wait(IDLE + " && " + REPLY + f" === 'Re: {text}'")
        self.page.call("Page.reload")
        self.page.wait(REPLY + " === 'Re: Second.'")
        titles = "[...document.querySelectorAll('#conversations .open')].map((b) => b.innerText).join()"
        self.assertEqual(self.page.evaluate(titles), "Second.,First.")
        self.page.evaluate("document.querySelectorAll('#conversations .open')[1].click()")
        self.page.wait(REPLY + " === 'Re: First.'")
        self.page.evaluate("document.querySelectorAll('#conversations .delete')[1].click()")
        self.page.wait("document.querySelectorAll('.message').length === 0")
        self.assertEqual(self.page.errors, ['dialog: Delete "First."?'])
        self.page.errors.clear()
        self.assertEqual(self.page.evaluate(titles), "Second.")

    def test_the_store_is_bounded(self):
        kept = self.page.evaluate("""import('/web/store.js').then((s) => {
            for (let i = 0; i < 105; i++)
              s.saveConversation({ id: `c${i}`, title: `${i}`, updated: i, messages: [{ role: 'user', content: 'x' }] });
            const few = s.listConversations();
            for (let i = 0; i < 9; i++)
              s.saveConversation({ id: `big${i}`, title: '', updated: 200 + i, messages: [{ content: 'x'.repeat(900000) }] });
            return [few.length, few[0].id, few.at(-1).id, s.listConversations().map((c) => c.id).join()];
          })""")
        self.assertEqual(kept, [100, "c104", "c5", "big8,big7,big6,big5"])

    def test_hostile_replies_are_text(self):
        evil = ("<img src=x onerror=\"document.title='pwned'\"> <script>document.title='pwned'</script>\n\n"
                "[a](javascript:document.title='pwned') [b](data:text/html,x) ![p](https://evil.example/p.png)\n\n"
                "```<img src=x>\n<svg onload=alert(1)>\n```\n\n# <iframe src=x>\n\n- <b>x</b>\n\n| <i> | b |\n|--|--|\n| <u> | `<s>` |\n")
        self.send("<img src=x onerror=alert(1)>")
        self.script.reply(content=evil, reasoning_content="</div><script>alert(1)</script>")
        self.page.wait(IDLE)
        shown = self.page.evaluate(REPLY)
        for piece in ["<img src=x onerror=", "<script>", "javascript:", "<svg onload=alert(1)>", "<iframe src=x>", "<b>x</b>", "<s>"]:
            self.assertIn(piece, shown)
        self.assertEqual(self.page.evaluate("document.querySelectorAll('#messages :is(img, script, svg, iframe, b, i, u, s)').length"), 0)
        self.assertEqual(self.page.evaluate("[...document.querySelectorAll('#messages a')].map((a) => a.href).join()"),
                         "https://evil.example/p.png")
        self.assertEqual(self.page.evaluate("document.querySelector('.message.user .text').innerText"), "<img src=x onerror=alert(1)>")
        self.assertNotIn("pwned", self.page.evaluate("document.title"))

    def test_markdown(self):
        def render(text):
            return self.page.evaluate("import('/web/markdown.js').then((m) => { const d = document.createElement('div');"
                                      f"new m.MarkdownView(d).show({json.dumps(text)}); return d['inner' + 'HTML']; }})")
        for text, html in [
                ("a *b* **c** _d_ `e*f*`", "<p>a <em>b</em> <strong>c</strong> <em>d</em> <code>e*f*</code></p>"),
                ("2 * 3 * 4, snake_case_name, **open", "<p>2 * 3 * 4, snake_case_name, **open</p>"),
                ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
                ("## T #\ntext", "<h4>T</h4><p>text</p>"),
                ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
                ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
                ("> a\n> b", "<blockquote><p>a<br>b</p></blockquote>"),
                ("*a", "<p>*a</p>"), ("[x](http://a.b)", '<p><a href="http://a.b" rel="noopener noreferrer nofollow" target="_blank" '
                                      'title="http://a.b">x</a></p>'),
                ("---", "<hr>"), (r"\*a\*", "<p>*a*</p>"), ("a & b < c", "<p>a &amp; b &lt; c</p>")]:
            with self.subTest(text=text):
                self.assertEqual(render(text), html)
        self.assertIn("<code>a\n b</code>", render("```py\na\n b\n```"))
        self.assertIn("<code>open\n</code>", render("```\nopen\n"))

    def test_markdown_of_long_nonsense_ends(self):
        count = "import('/web/markdown.js').then((m) => m.element('p', '', m.inline('a\\n'.repeat(70000))).childNodes.length)"
        self.assertEqual(self.page.evaluate(count), 140000)
        shown = self.page.evaluate("""import('/web/markdown.js').then((m) => ['*', '[', '`', '_a', '> ', '- ', '**a ', ' ', '|', '![](', 'http://',
            '# ', '~~', '`a``'].map((piece) => {
              const div = document.createElement('div');
              new m.MarkdownView(div).show(piece.repeat(20000));
              return div.textContent.length;
            }))""")
        self.assertEqual(len(shown), 14)
        self.assertEqual((shown[1], shown[3]), (20000, 40000)) # what opens nothing stays

    def test_colours_follow_the_system(self):
        found = {}
        for scheme in ["light", "dark"]:
            self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            found[scheme] = [sum(map(int, re.findall(r"\d+", self.page.evaluate(f"getComputedStyle(document.body).{what}"))[:3]))
                             for what in ["backgroundColor", "color"]]
        self.page.call("Emulation.setEmulatedMedia", features=[])
        self.assertGreater(found["light"][0] - found["light"][1], 500)
        self.assertGreater(found["dark"][1] - found["dark"][0], 500)

    def test_failures_are_told(self):
        self.send("x")
        self.script.say(content="so far")
        self.script.pieces.put({"error": {"message": "the engine <b>stopped</b>"}})
        self.page.wait(IDLE)
        self.assertEqual(self.page.evaluate(LAST + ".querySelector('[role=alert]').innerText"), "the engine <b>stopped</b>")
        self.assertEqual(self.page.evaluate(REPLY), "so far")

    def test_every_field_has_a_name(self):
        self.page.evaluate("document.getElementById('open-settings').click()")
        unnamed = self.page.evaluate("""[...document.querySelectorAll('input, select, textarea, button')]
            .filter((e) => !(e.labels?.length || e.getAttribute('aria-label') || e.innerText.trim() || e.textContent.trim())).map((e) => e.outerHTML)""")
        self.assertEqual(unnamed, [])


if __name__ == "__main__":
    unittest.main()
