"""The server of the application: it serves the page, takes uploads, and submits a job for each.
Start it with: CONSIGN_KEY=$(cat consign-data/admin.key) python3 server.py"""
import http.server, json, os, pathlib, sys, time, uuid
from urllib import error, parse, request

CONSIGN = os.environ.get("CONSIGN_URL", "http://127.0.0.1:8470")
KEY = os.environ.get("CONSIGN_KEY") or sys.exit("first: export CONSIGN_KEY=$(cat consign-data/admin.key)")
PORT = int(os.environ.get("PORT", 8000))
UPLOADS = pathlib.Path(os.environ.get("UPLOADS", "uploads"))  # workers read the files here
PAGE = pathlib.Path(__file__).with_name("index.html")
BYTES_MAX = 1_000_000
TRIES_MAX = 10


def submit(upload):
    """Submits the job of an upload. Its key is the upload's id, so that a repeat is safe."""
    job = {"jobType": "csv-import", "subjectId": f"upload/{upload}", "payload": {"upload": upload}}
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Idempotency-Key": upload}
    address = parse.urljoin(CONSIGN, "/api/jobs?withSignedUrl=true")
    for tries in range(1, TRIES_MAX + 1):
        try:
            with request.urlopen(request.Request(address, json.dumps(job).encode(), headers), timeout=10) as answer:
                return json.load(answer)
        except OSError as failure:  # an HTTPError is one, too
            is_final = isinstance(failure, error.HTTPError) and failure.code < 500 and failure.code != 429
            if is_final or tries == TRIES_MAX:
                raise
            time.sleep(0.5)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/":
            return self.answer(404, {"detail": "there is only one page: /"})
        self.answer(200, PAGE.read_bytes(), "text/html; charset=utf-8")

    def do_PUT(self):
        try:
            upload = str(uuid.UUID(self.path.removeprefix("/uploads/")))
            length = int(self.headers["Content-Length"])
        except (TypeError, ValueError):
            return self.answer(400, {"detail": "an upload is PUT to /uploads/{a UUID}"})
        if length > BYTES_MAX:
            self.close_connection = True
            return self.answer(413, {"detail": f"the file is larger than {BYTES_MAX} bytes"})
        # Stored before the job is submitted: a worker that claims the job finds the file.
        (UPLOADS / upload).write_bytes(self.rfile.read(length))
        try:
            job = submit(upload)
        except OSError as failure:
            print(f"{upload} was not submitted: {failure}", file=sys.stderr)
            return self.answer(503, {"detail": "the import could not be started; try again"})
        # The page follows this one job with it, and needs no key.
        self.answer(202, {"jobId": job["jobId"], "eventsUrl": parse.urljoin(CONSIGN, job["signedEventsUrl"])})

    def answer(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


UPLOADS.mkdir(exist_ok=True)
print(f"http://127.0.0.1:{PORT}", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
