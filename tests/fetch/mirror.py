"""A hub on this machine, with faults on request.

Two servers on two ports, so that one is another host to the other: the hub
(API, small files, redirects) and its storage (large files, by signed address).
What a real one does is done by default; a test puts its faults into `faults`.
"""
import hashlib
import http.server
import json
import pathlib
import ssl
import sys
import threading
import time
import urllib.parse

CERTIFICATE = pathlib.Path(__file__).resolve().parent / "certificate.pem"
LARGE = (".safetensors", ".gguf", ".bin")


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def blob_name(path, data):
    return sha256(data) if path.endswith(LARGE) else git_hash(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Programs that hang up, or are killed, are what is tested here."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


class Mirror:
    """secure: which of the two (0: the hub, 1: its storage) speak TLS, with a certificate that nobody knows.

    repos: name -> {"revisions": {name: commit}, "commits": {commit: {path: bytes}}}

    faults: path (or "revision", "tree") -> a list of dicts, one used up by each request of that path and
    server ("storage": True for the second); see Handler.send_body for the keys.
    """

    def __init__(self, secure=()):
        self.repos, self.faults, self.requests = {}, {}, []
        self.page = 1000  # entries of a page
        self.signature = 0  # of storage addresses
        self.token = None  # needed for everything when set
        self.gated = False  # the files need it
        self.lock = threading.Lock()
        self.release = threading.Event()  # ends what "hang" began
        self.reached = threading.Event()  # "hang" was reached
        self.servers = [Server(("127.0.0.1", 0), make_handler(self, storage))
                        for storage in (False, True)]
        # certificate.pem, of 127.0.0.1: openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes
        #   -days 36500 -subj /CN=weir-test -addext subjectAltName=IP:127.0.0.1 -keyout KEY -out CERTIFICATE
        for i in secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self.servers[i].socket = context.wrap_socket(self.servers[i].socket, server_side=True,
                                                         do_handshake_on_connect=False)
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url, self.storage_url = [f"http{'s' * (i in secure)}://127.0.0.1:{s.server_port}"
                                      for i, s in enumerate(self.servers)]

    def close(self):
        self.release.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files, commit=None, revision="main"):
        """Adds a revision; returns its commit."""
        text = json.dumps(sorted((p, sha256(d)) for p, d in files.items()))
        commit = commit or hashlib.sha1(text.encode()).hexdigest()
        repo = self.repos.setdefault(name, {"revisions": {}, "commits": {}})
        repo["revisions"][revision] = commit
        repo["commits"][commit] = files
        return commit

    def fault(self, key, *faults):
        self.faults.setdefault(key, []).extend(faults)

    def take_fault(self, key, storage):
        with self.lock:
            waiting = self.faults.get(key, [])
            for i, fault in enumerate(waiting):
                if fault.get("storage", False) == storage:
                    return fault if fault.get("always") else waiting.pop(i)
        return {}

    def served(self, part, storage=None):
        """Requests whose path has `part` in it, as (storage, path, headers)."""
        return [r for r in self.requests if part in r[1] and storage in (None, r[0])]


def make_handler(mirror, storage):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def do_GET(self):
            try:
                self.answer()
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def answer(self):
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            mirror.requests.append((storage, self.path, dict(self.headers)))
            parts = url.path.strip("/").split("/")
            if storage:
                return self.stored(parts, query)
            authorised = mirror.token and self.headers.get("Authorization") == "Bearer " + mirror.token
            api = parts[:2] == ["api", "models"]
            name = "/".join(parts[2:4] if api else parts[:2])
            repo = mirror.repos.get(name)
            if repo is None or (mirror.token and not mirror.gated and not authorised):
                return self.error(401, "RepoNotFound")
            if api and parts[4] == "revision":
                return self.revision(repo, urllib.parse.unquote(parts[5]))
            if api and parts[4] == "tree":
                return self.tree(repo["commits"].get(parts[5]), query, url.path)
            if parts[2] == "resolve":
                if mirror.gated and not authorised:
                    return self.error(403, "GatedRepo")
                return self.resolve(repo["commits"][parts[3]], urllib.parse.unquote("/".join(parts[4:])))
            return self.error(404)

        def error(self, status, code=None, **headers):
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send_json(self, value, headers=()):
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(200)
            for name, text in headers:
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def revision(self, repo, revision):
            fault = mirror.take_fault("revision", False)
            if "status" in fault:
                return self.error(fault["status"], Retry_After="0")
            if "json" in fault:
                return self.send_json(fault["json"])
            commit = repo["revisions"].get(revision, revision if revision in repo["commits"] else None)
            if commit is None:
                return self.error(404, "RevisionNotFound")
            return self.send_json({"id": "x", "sha": commit, "siblings": []})

        def tree(self, files, query, path):
            fault = mirror.take_fault("tree", False)
            if "status" in fault:
                return self.error(fault["status"])
            if files is None:
                return self.error(404, "RevisionNotFound")
            entries = []
            for name, data in sorted(files.items()):
                entry = {"type": "file", "oid": git_hash(data), "size": len(data), "path": name}
                if name.endswith(LARGE):
                    entry["oid"] = git_hash(b"pointer")
                    entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
                entries.append(entry)
            entries.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": "original"})
            if "change" in fault:
                entries = fault["change"](entries)
            start = int(query.get("cursor", 0))
            headers = []
            if start + mirror.page < len(entries) or "next" in fault:
                url = fault.get("next", f"{mirror.url}{path}?recursive=true&cursor={start + mirror.page}")
                headers = [("Link", f'<{mirror.url}/first>; rel="first", <{url}>; rel="next"')]
            return self.send_json(fault.get("json", entries[start:start + mirror.page]), headers)

        def resolve(self, files, path):
            if path not in files:
                return self.error(404, "EntryNotFound")
            data = files[path]
            fault = mirror.take_fault(path, False)
            if "location" in fault:
                return self.error(302, Location=fault["location"])
            if not path.endswith(LARGE):
                return self.send_body(data, '"%s"' % git_hash(data), fault)
            if "status" in fault:
                return self.error(fault["status"])
            place = f"{mirror.storage_url}/{sha256(data)}/{urllib.parse.quote(path)}?signature={mirror.signature}"
            return self.error(302, Location=place, X_Linked_Size=str(len(data)), X_Linked_Etag='"%s"' % sha256(data))

        def stored(self, parts, query):
            if "back" in query:
                return self.error(302, Location=query["back"])
            if query.get("signature") != str(mirror.signature):
                return self.error(403)
            path = urllib.parse.unquote("/".join(parts[1:]))
            for repo in mirror.repos.values():
                for files in repo["commits"].values():
                    if path in files and sha256(files[path]) == parts[0]:
                        return self.send_body(files[path], '"of-%s"' % parts[0][:8], mirror.take_fault(path, True))
            return self.error(404)

        def send_body(self, data, tag, fault):
            """fault: status N; wrong (flips a bit); cut N (closes behind so many bytes); no_range; length N (says so);
            hang N (waits for `release` behind so many bytes); expire (the address, behind `cut`); chunked; rate N (bytes a
            second); start N (another beginning than was asked for)."""
            if "status" in fault:
                return self.error(fault["status"])
            if fault.get("wrong"):
                data = data[:-1] + bytes([data[-1] ^ 1])
            start, status = 0, 200
            wanted = self.headers.get("Range")
            if wanted and not fault.get("no_range") and self.headers.get("If-Range", tag) == tag:
                start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
            if status == 206 and start >= len(data):
                return self.error(416, Content_Range=f"bytes */{len(data)}")
            start = fault.get("start", start)
            self.send_response(status)
            self.send_header("ETag", tag)
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            body = data[start:]
            if fault.get("chunked"):
                self.send_header("Connection", "close")
                self.close_connection = True
            else:
                self.send_header("Content-Length", str(fault.get("length", len(body))))
            self.end_headers()
            stop = fault.get("cut", fault.get("hang"))
            if stop is not None:
                self.wfile.write(body[:stop])
                self.wfile.flush()
                if fault.get("expire"):
                    mirror.signature += 1
                if "hang" in fault:
                    mirror.reached.set()
                    mirror.release.wait(20)
                self.close_connection = True
                return None
            step = fault.get("rate", 0) // 20 or 1 << 20
            for at in range(0, len(body), step):
                self.wfile.write(body[at:at + step])
                if "rate" in fault:
                    time.sleep(0.05)
            return None

    return Handler
