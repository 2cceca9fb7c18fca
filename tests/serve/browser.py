"""A Chromium without a window, driven over the DevTools protocol; only Python's own library is used."""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.request


def find():
    """The browser's path, or None."""
    for name in ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]:
        if shutil.which(name):
            return shutil.which(name)
    return None


class WebSocket:
    """The client's side of RFC 6455, as far as the protocol needs it: text messages of any length."""

    def __init__(self, host, port, path):
        self.socket = socket.create_connection((host, port), timeout=120)
        self.input = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        status = self.input.readline()
        assert b" 101 " in status, status
        while self.input.readline() != b"\r\n":
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        masked = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big")).to_bytes(n, "big")
        self.socket.sendall(b"\x81" + size + mask + masked)

    def frame(self):
        head = self.input.read(2)
        if len(head) < 2:
            raise ConnectionError("the browser has gone")
        n = head[1] & 127
        if n > 125:
            n = int.from_bytes(self.input.read(2 if n == 126 else 8), "big")
        return head[0] & 15, head[0] & 128, self.input.read(n)

    def receive(self):
        text = b""
        while True:
            kind, final, data = self.frame()
            if kind in (0, 1):
                text += data
                if final:
                    return text.decode()

    def close(self):
        self.input.close()
        self.socket.close()


class Browser:
    """One page.  `evaluate` runs JavaScript in it; `errors` holds what it complained about."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--window-size=1200,900",
             "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)})
        found = None
        while not found:
            line = self.process.stderr.readline()
            assert line, "the browser did not start"
            found = re.search(r"ws://([^:/]+):(\d+)/", line)
        host, port = found.group(1), int(found.group(2))
        with urllib.request.urlopen(f"http://{host}:{port}/json", timeout=60) as answer:
            page = next(t for t in json.load(answer) if t["type"] == "page")
        self.web = WebSocket(host, port, re.sub(r"^ws://[^/]+", "", page["webSocketDebuggerUrl"]))
        self.serial = 0
        self.errors = []
        for domain in ["Page", "Runtime", "Log"]:
            self.call(domain + ".enable")

    def note(self, event):
        parameters = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        if event["method"] == "Page.javascriptDialogOpening":
            self.errors.append("dialog: " + parameters["message"])
            self.web.send(json.dumps({"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}))

    def call(self, method, **parameters):
        self.serial += 1
        self.web.send(json.dumps({"id": self.serial, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.web.receive())
            if answer.get("id") == self.serial:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "method" in answer:
                self.note(answer)

    def evaluate(self, script):
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script, seconds=60):
        """Until the expression is true; its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.evaluate(script)
            if value:
                return value
            assert time.monotonic() < end, f"never: {script}\n{self.evaluate('document.body.innerText')}\n{self.errors}"
            time.sleep(0.03)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code = {"Enter": 13, "Escape": 27, "Tab": 9}[key]
        text = {"Enter": "\r"}.get(key, "")
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      modifiers=8 if shift else 0, **({"text": text} if kind == "keyDown" and text else {}))

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.web.close()
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stderr.close()
