"""What an administrator does while it serves: adapters, keys, cancelling; and how it is configured."""
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from support import CHAT, PROGRAM, Case, Server, environment, message, write_adapter

ENDLESS = {"max_tokens": 4000, "ignore_eos": True, "seed": 1, "stream": True}


class Adapters(Case):
    @classmethod
    def setUpClass(cls):
        cls.here = pathlib.Path(tempfile.mkdtemp(prefix="weir-adapters-"))
        cls.addClassCleanup(shutil.rmtree, cls.here, ignore_errors=True)
        cls.fixed = write_adapter(cls.here / "fixed", 0.3)
        cls.shelf = cls.here / "shelf"
        write_adapter(cls.shelf / "same", 0.3)
        write_adapter(cls.shelf / "other", 0.2)
        broken = write_adapter(cls.shelf / "broken", 0.2)
        (broken / "adapter_config.json").write_text("{}")
        (cls.shelf / "way-out").symlink_to(cls.fixed)
        cls.args = ("--ctx", "4096", "--parallel", "2", "--adapter", str(cls.fixed), "--adapter-dir", str(cls.shelf),
                    "--max-adapters", "2", "--adapter-rank", "4", "--strict-model")
        super().setUpClass()

    def tearDown(self):
        for name in self.listed():
            if name != "fixed":
                self.assertEqual(self.remove(name).status, 200)
        self.server.post("/lora-adapters", [])

    def said(self, **fields):
        answer = self.server.chat("Tell me a story.", temperature=0, max_tokens=8, **fields)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["choices"][0]["message"]["content"]

    def load(self, name, path, **fields):
        return self.server.post("/v1/adapters", dict(fields, id=name, path=path))

    def remove(self, name):
        return self.server.ask("DELETE", "/v1/adapters/" + name)

    def listed(self):
        return {a["name"]: a for a in self.server.get("/v1/adapters").json}

    def test_one_comes_and_goes(self):
        plain, fixed = self.said(), self.said(adapter="fixed")
        self.assertNotEqual(plain, fixed)
        told = self.load("late", "same").json
        self.assertEqual((told["name"], told["rank"], told["scale"], told["refs"], told["loaded"]),
                         ("late", 1, 1.0, 0, True))
        self.assertEqual(told["path"], str((self.shelf / "same").resolve()))
        here = self.listed()
        self.assertEqual(here["late"], told)
        self.assertEqual(here["fixed"]["hash"], told["hash"])
        self.assertEqual(self.said(model="late"), fixed)  # the same bits as one that was there from the start
        self.assertEqual([m["id"] for m in self.server.get("/v1/models").json["data"]], ["demo", "fixed", "late"])
        self.assertEqual(self.load("late", "other").error["code"], "conflict")
        gone = self.remove("late").json
        self.assertEqual((gone["id"], gone["deleted"]), (told["id"], True))
        self.assertEqual(self.remove("late").status, 404)
        self.assertEqual(self.server.chat("x", model="late").error["code"], "model_not_found")
        self.assertEqual(self.server.chat("x", adapter="late").status, 400)
        self.assertGreater(self.load("late", "same", scale=0.5).json["id"], told["id"])
        self.assertEqual(self.said(adapter="late"), self.said(lora=[{"id": "fixed", "scale": 0.5}]))

    def test_only_from_the_folder(self):
        for path in ["../fixed", "way-out", str(self.fixed), "same/../../fixed", "nothing", "", ".", "/", "x" * 5000]:
            answer = self.load("x", path)
            self.assertEqual((answer.status, answer.error["param"]), (400, "path"), path)
        for name in ["", "none", "a+b", "a:b", "x" * 65, 5]:
            self.assertEqual(self.load(name, "same").status, 400, name)
        self.assertEqual(self.load("absolute", str(self.shelf / "same")).status, 200)
        self.assertEqual(self.load("bad", "broken").status, 400)
        self.assertNotIn("bad", self.listed())
        self.assertEqual(self.load("bad", "other").status, 200)
        full = self.load("more", "other")
        self.assertEqual((full.status, full.error["code"]), (400, "context_over_budget"))
        self.assertNotIn("more", self.listed())

    def test_who_has_it_keeps_it(self):
        self.load("late", "same")
        runs = self.server.begin(CHAT, message("Tell me a story.", adapter="late", **ENDLESS))
        self.server.wait_for("vllm:num_requests_running", 1)
        self.assertEqual(self.listed()["late"]["refs"], 1)
        for _ in range(2):
            busy = self.remove("late")
            self.assertEqual((busy.status, busy.error["code"]), (409, "conflict"))
        self.assertIn("late", busy.error["message"])
        self.assertEqual(self.server.chat("x", adapter="late").status, 400)
        self.assertEqual(self.load("late", "other").status, 409)
        self.assertEqual(self.server.metrics()["vllm:num_requests_running"], 1)
        runs.close()
        self.server.wait_for("vllm:num_requests_running", 0)
        end = time.monotonic() + 30
        while "late" in self.listed():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_as_vllm(self):
        done = self.server.post("/v1/load_lora_adapter", {"lora_name": "v", "lora_path": "same"})
        self.assertEqual((done.status, done.body), (200, b"Success: LoRA adapter 'v' added successfully."))
        self.assertIn("v", self.listed())
        done = self.server.post("/v1/unload_lora_adapter", {"lora_name": "v"})
        self.assertEqual((done.status, done.body), (200, b"Success: LoRA adapter 'v' removed successfully."))
        self.assertNotIn("v", self.listed())
        self.assertEqual(self.server.post("/v1/unload_lora_adapter", {"lora_name": "v"}).status, 404)
        self.assertEqual(self.server.post("/v1/load_lora_adapter", {"lora_name": "v"}).error["param"], "lora_path")

    def test_as_llama(self):
        plain, fixed = self.said(), self.said(adapter="fixed")
        here = self.server.get("/lora-adapters").json
        self.assertEqual([(a["name"], a["scale"]) for a in here], [("fixed", 0.0)])
        set_to = self.server.post("/lora-adapters", [{"id": here[0]["id"], "scale": 1.0}])
        self.assertEqual(set_to.json[0]["scale"], 1.0)
        self.assertEqual((self.said(), self.said(adapter="none"), self.said(lora=[])), (fixed, plain, plain))
        for wrong in [[{"id": 99, "scale": 1}], [{"id": 0}], [{"scale": 1}], {"id": 0}, [5], [{"id": 0, "scale": 1e9}]]:
            self.assertEqual(self.server.post("/lora-adapters", wrong).status, 400, wrong)
        self.assertEqual(self.said(), fixed)
        self.server.post("/lora-adapters", [])
        self.assertEqual(self.said(), plain)
        by_id = [{"id": here[0]["id"], "scale": 1.0}]
        self.assertEqual((self.said(lora=by_id), self.said(lora=[{"id": 0, "scale": 0}])), (fixed, plain))
        for wrong in [[{"id": 99}], [{"id": "nobody"}], [{}], [5], "fixed", [{"id": 0, "scale": "x"}]]:
            self.assertEqual(self.server.chat("x", lora=wrong).status, 400, wrong)

    def test_strict_model(self):
        wrong = self.server.chat("x", model="gpt-4o")
        self.assertEqual((wrong.status, wrong.error["code"]), (404, "model_not_found"))
        self.assertEqual(self.server.chat("x", model="demo:nobody").status, 404)
        for model in ["demo", "fixed", "demo:fixed"]:
            self.assertEqual(self.server.chat("x", model=model, max_tokens=1).status, 200)

    def test_cancel(self):
        got = []
        asker = threading.Thread(target=lambda: got.append(self.server.post(
            CHAT, message("Tell me a story.", **dict(ENDLESS, stream=False)), headers={"x-request-id": "mine"})))
        asker.start()
        self.server.wait_for("vllm:num_requests_running", 1)
        done = self.server.ask("DELETE", "/v1/requests/mine")
        self.assertEqual((done.status, done.json), (200, {"id": "mine", "cancelled": 1}))
        asker.join()
        self.assertEqual((got[0].status, got[0].error["code"]), (499, "cancelled"))
        self.server.wait_for("vllm:num_requests_running", 0)
        self.assertEqual(self.server.ask("DELETE", "/v1/requests/mine").status, 404)
        self.assertEqual(self.server.get("/v1/requests/mine").headers["Allow"], "DELETE, OPTIONS")

    def test_a_miss_is_explained(self):
        text = ["the fox and the river " * 12, "and the stone " * 12]
        ids = []
        for words in [text[0] + text[1], text[0] + "no" + text[1]]:
            ids.append(self.server.post("/tokenize", {"content": words}).json["tokens"])
            self.assertEqual(self.server.post("/v1/completions", {"prompt": ids[-1], "max_tokens": 1}).status, 200)
        at = next(i for i, (a, b) in enumerate(zip(*ids)) if a != b)
        wanted = f"cache: knew {at}, then had token {ids[0][at]} where {ids[1][at]} came"
        end = time.monotonic() + 30
        while not any(wanted in line for line in self.server.lines):
            self.assertLess(time.monotonic(), end, (wanted, self.server.lines[-2:]))
            time.sleep(0.02)

    def test_pages(self):
        fit = self.server.get("/fit").json
        self.assertTrue(fit["fits"])
        self.assertGreater(fit["adapter_bytes"], 0)
        self.assertEqual((fit["n_ctx"], fit["max_sequences"]), (4096, 2))
        props = self.server.get("/props").json
        self.assertEqual((props["default_generation_settings"]["n_ctx"], props["total_slots"], props["model_alias"],
                          props["model_path"]), (4096, 2, "demo", "demo"))
        self.assertEqual([(s["id"], s["is_processing"]) for s in self.server.get("/slots").json],
                         [(0, False), (1, False)])


class Keys(Case):
    @classmethod
    def setUpClass(cls):
        cls.keys = pathlib.Path(tempfile.mkdtemp(prefix="weir-keys-")) / "keys"
        cls.addClassCleanup(shutil.rmtree, cls.keys.parent, ignore_errors=True)
        cls.keys.write_text("ann:u\nadmin bob:a\n")
        cls.args = ("--ctx", "256", "--api-key-file", str(cls.keys))
        super().setUpClass()

    def status(self, key, method="GET", path="/v1/models", body=None):
        return self.server.ask(method, path, body, headers={"x-api-key": key}).status

    def reload(self, text, expected):
        self.keys.write_text(text)
        before = len(self.server.lines)
        self.server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 30
        while not any(expected in line for line in self.server.lines[before:]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_admin_and_reload(self):
        self.assertEqual([self.status(k) for k in ["u", "a", "x"]], [200, 200, 401])
        for method, path in [("POST", "/v1/adapters"), ("DELETE", "/v1/adapters/x"), ("POST", "/lora-adapters"),
                             ("POST", "/v1/load_lora_adapter"), ("POST", "/v1/unload_lora_adapter")]:
            self.assertEqual(self.status("u", method, path, {}), 403, path)
            self.assertIn(self.status("a", method, path, {}), (400, 404), path)
        answer = self.server.ask("POST", "/v1/adapters", {"id": "x", "path": "x"}, headers={"x-api-key": "a"})
        self.assertEqual((answer.status, answer.error["message"].split()[-1]), (403, "--adapter-dir"))
        self.reload("c:u2\n", "read again")
        self.assertEqual([self.status(k) for k in ["u", "a", "u2"]], [401, 401, 200])
        self.assertEqual(self.status("u2", "DELETE", "/v1/adapters/x"), 404)  # the only key there is
        self.reload("# nobody\n", "stay as they were")
        self.assertEqual(self.status("u2"), 200)


class Settings(Case):
    args = ("--ctx", "256")

    def print(self, *args, text="", code=0, **variables):
        (self.folder / "weir.conf").write_text(text)
        env = dict(environment(self.folder), **{"WEIR_" + k: v for k, v in variables.items()})
        done = subprocess.run([PROGRAM, "serve", "--config", self.folder / "weir.conf", "--print-config", *args], env=env,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        if code != 0:
            return done.stderr
        return [line for line in done.stdout.splitlines() if line and not line.startswith("#")]

    def test_who_wins(self):
        self.assertEqual(self.print(), [])
        text = "# a comment\n\nport = 1\n max-queue=2 \nparallel = 3\nmodel = m\ncors-origin = a\ncors-origin = b\nquiet = true\n"
        in_file = ["model = m", "port = 1", "parallel = 3", "max-queue = 2", "cors-origin = a", "cors-origin = b",
                   "quiet = true"]
        self.assertEqual(self.print(text=text), in_file)
        self.assertEqual(self.print(text="\n".join(in_file)), in_file)  # what is printed can be read
        found = self.print("--port", "5", "--cors-origin", "d", text=text, PORT="4", MAX_QUEUE="4", CORS_ORIGIN="c,e",
                           MODEL="n", QUIET="false")
        self.assertEqual(found, ["model = n", "port = 5", "parallel = 3", "max-queue = 4", "cors-origin = d"])
        self.assertEqual(self.print("o", CORS_ORIGIN="c,e", MODEL="n"), ["model = o", "cors-origin = c", "cors-origin = e"])
        self.assertEqual(self.print("--temp", "0", "--api-key", "secret"), ["temp = 0"])

    def test_what_is_wrong_is_named(self):
        for text, says in [("port = x", "line 1: --port"), ("\nbogus = 1", "line 2: bogus"), ("port", "line 1: port"),
                           ("quiet = yes", "line 1: --quiet"), ("config = x", "line 1: config"), ("x\0 = 1", "zero byte")]:
            self.assertIn(says, self.print(text=text, code=2))
        self.assertIn("WEIR_PORT: --port", self.print(PORT="70000", code=2))

    def test_the_service_manager_is_told(self):
        for name in [str(self.folder / "notify"), "\0weir-test-" + self.folder.name]:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(name)
                manager.settimeout(30)
                server = Server("--threads", "1", "--ctx", "64", folder=self.folder,
                                variables={"NOTIFY_SOCKET": name.replace("\0", "@")})
                self.assertEqual(manager.recv(400).decode(),
                                 f"READY=1\nSTATUS=listening on http://127.0.0.1:{server.port}")
                server.stop()
                self.assertEqual(manager.recv(400), b"STOPPING=1")


if __name__ == "__main__":
    unittest.main()
