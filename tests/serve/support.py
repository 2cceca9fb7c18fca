"""What the tests of the server share: starting it, asking it, reading event streams.

Two variables say where things are: WEIR_PROGRAM (the executable) and WEIR_SOURCE (the source
tree).  Only Python's own library is used.
"""
import array
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ["WEIR_PROGRAM"]
SOURCE = pathlib.Path(os.environ["WEIR_SOURCE"])
DEMO = SOURCE / "models" / "demo"
CHAT = "/v1/chat/completions"


def environment(folder):
    """An environment that holds nothing of the machine's own caches and state."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    return env


def message(text, **fields):
    """A chat's body: one message of the user, no reasoning unless asked for."""
    body = {"messages": [{"role": "user", "content": text}], "enable_thinking": False}
    body.update(fields)
    return body


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        """The frames of an event stream: parsed JSON, and the last literally."""
        text = self.body.decode("utf-8")
        assert text.endswith("\n\n"), text[-80:]
        found = []
        for frame in text[:-2].split("\n\n"):
            if frame.startswith(":"):
                continue
            assert frame.startswith("data: ") and "\n" not in frame, frame
            found.append(frame[6:] if frame == "data: [DONE]" else json.loads(frame[6:]))
        return found


def joined(events, field="content", index=0):
    """What the deltas of one choice say together."""
    return "".join(c["delta"].get(field) or "" for e in events if e != "[DONE]"
                   for c in e.get("choices", []) if c["index"] == index)


class Server:
    """A server on a free port; a `with` statement's end stops it, and looks at its exit code."""

    def __init__(self, *args, folder, model=DEMO, variables=None):
        self.folder = folder
        command = [PROGRAM, "serve", model, "--port", "0", *args]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, env=dict(environment(folder), **(variables or {})))
        self.lines = []
        found = None
        while not found:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError(f"{command}: {''.join(self.lines)}")
            self.lines.append(line)
            found = re.match(r"weir: listening on http://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)\n", line)
        self.port = int(found.group(1))
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def stop(self, code=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        found = self.process.wait(timeout=120)
        self.reader.join()
        self.process.stderr.close()
        assert found == code, f"exit code {found}: {''.join(self.lines)[-2000:]}"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, method, path, body=None, headers=None, connection=None):
        own = connection or self.connect()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own.request(method, path, body=data, headers=headers or {})
        response = own.getresponse()
        answer = Answer(response, response.read())
        if connection is None:
            own.close()
        return answer

    def post(self, path, body, **kwargs):
        return self.ask("POST", path, body, **kwargs)

    def get(self, path, **kwargs):
        return self.ask("GET", path, **kwargs)

    def chat(self, text, **fields):
        return self.post(CHAT, message(text, **fields))

    def metrics(self):
        """name with labels -> value"""
        found = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name.replace('model_name="demo",engine="0"', "").replace("{}", "").replace("{,", "{")] = float(value)
        return found

    def wait_for(self, name, value, seconds=30):
        end = time.monotonic() + seconds
        while self.metrics()[name] != value:
            assert time.monotonic() < end, f"{name} is {self.metrics()[name]}, expected {value}"
            time.sleep(0.02)

    def begin(self, path, body):
        """A socket on which the request was sent, and nothing read yet."""
        data = json.dumps(body).encode()
        s = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return s


def write_adapter(folder, scale):
    """A PEFT adapter of rank 1 on one module of the demo model, made of simple numbers."""
    folder.mkdir(parents=True)
    header, data = {}, b""
    for name, shape in [("A", [1, 1024]), ("B", [384, 1])]:
        values = array.array("f", [scale * ((7 * i) % 13 - 6) for i in range(shape[0] * shape[1])]).tobytes()
        header[f"base_model.model.model.layers.0.mlp.down_proj.lora_{name}.weight"] = {
            "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 1, "lora_alpha": 1}))
    return folder


class Case(unittest.TestCase):
    """Tests that share one server, started with `args`."""

    args = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-serve-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = Server("--threads", "1", *cls.args, folder=cls.folder)
        cls.addClassCleanup(cls.server.stop)
