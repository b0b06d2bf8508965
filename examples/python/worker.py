"""A worker for Consign in plain Python: copy it, and put your own handlers in the place of `send`.
Start it with: CONSIGN_KEY=$(cat consign-data/admin.key) python3 worker.py"""
import http.client, json, logging, os, signal, socket, sys, threading, time, types, urllib.request, uuid

URL = os.environ.get("CONSIGN_URL", "http://127.0.0.1:8470") + "/api/work/"
KEY = os.environ.get("CONSIGN_KEY") or sys.exit("first: export CONSIGN_KEY=$(cat consign-data/admin.key)")
SLOTS = int(os.environ.get("CONSIGN_SLOTS", 4))  # how many jobs at once
GRACE = float(os.environ.get("CONSIGN_GRACE", 20))  # seconds for running jobs when the worker is asked to end
WORKER = f"{socket.gethostname()}-{os.getpid()}"
handlers, leased_jobs, stopping, refused = {}, {}, threading.Event(), threading.Event()
def handler(job_type): return lambda function: handlers.setdefault(job_type, function)

class Fail(Exception):  # the job is tried again, as after any exception, unless retryable=False or another outcome
    def __init__(self, code, message, outcome="failed", **more):
        self.ending = {"outcome": outcome, "errorCode": code, "errorMessage": message, **more}

class Job(types.SimpleNamespace):  # the claimed job as the server sent it: job.jobId, job.payload, job.attempt, …
    cancelled, new_progress = False, None
    def report(self, percent, note): self.new_progress = {"percent": int(percent), "note": note}
    def item(self, **more): return {"jobId": self.jobId, "token": self.lease["token"], **more}

@handler("email")
def send(job):  # simulated: it takes "seconds", and fails in the first "failures" attempts
    if not isinstance(job.payload, dict): raise Fail("BAD_PAYLOAD", "no object", outcome="poisoned")
    if "@" not in job.payload.get("to", "@"): raise Fail("NO_ADDRESS", "no @ in it", retryable=False)
    for percent in range(0, 100, 5):
        job.report(percent, "connecting" if percent < 40 else "sending")
        time.sleep(job.payload.get("seconds", 5) / 20)
        if job.cancelled: raise Fail("STOPPED", "as it was asked to", outcome="cancelled")
    if job.attempt <= job.payload.get("failures", 0): raise Fail("SMTP_DOWN", "no answer")
    return {"sent": True}

def post(path, body, tries=10**6):  # retries until it is answered: a repeated request of a worker counts once
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    req = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    for wait in ([0.2, 0.5, 1, 2] + [5] * 1_000_000)[:tries]:
        try: return json.load(urllib.request.urlopen(req, timeout=10 + body.get("waitSeconds", 0)))
        except (OSError, http.client.HTTPException, ValueError) as error:
            logging.warning("%s: %s %s", path, error, error.read().decode() if hasattr(error, "code") else "")
            if getattr(error, "code", 0) in (400, 401, 403):  # a retry would not help
                refused.set(); stopping.set(); sys.exit(1)
        time.sleep(wait)

def work():  # one slot: claims, runs, settles; a repeated claimId brings the same job
    claim = {"workerId": WORKER, "jobTypes": list(handlers), "waitSeconds": 5, "leaseSeconds": 30}
    while not stopping.is_set():
        for claimed in post("claim", {**claim, "claimId": str(uuid.uuid4())})["jobs"]:
            job = leased_jobs[claimed["lease"]["token"]] = Job(**claimed)
            if stopping.is_set(): return  # too late: it is given back with the others
            answer = post("settle", {"items": [job.item(**run(job))]})["items"][0]
            logging.info("%s %s: %s", job.jobType, job.jobId, answer.get("status") or answer["problem"])
            leased_jobs.pop(job.lease["token"], None)

def run(job):
    logging.info("%s %s: attempt %s (%s)", job.jobType, job.jobId, job.attempt, job.correlationId)
    try:
        result = handlers[job.jobType](job)
        if len(json.dumps(result)) > 4096: raise Fail("RESULT_TOO_LARGE", "over 4 KiB", retryable=False)
        return {"outcome": "completed", "result": result}
    except Fail as fail: return fail.ending
    except Exception as error:
        logging.exception("%s", job.jobId); return {"outcome": "failed", "errorMessage": repr(error)[:500]}

def send_heartbeats():  # extends all leases and reports progress; the answer says which jobs should stop
    jobs = list(leased_jobs.values())
    heartbeats = {"workerId": WORKER, "leases": [job.item(progress=job.new_progress) for job in jobs]}
    answer = jobs and post("heartbeat", heartbeats, tries=1) or {"leases": []}  # not retried: the next heartbeat repeats it
    for job, lease in zip(jobs, answer["leases"]): job.cancelled = lease["state"] != "extended"

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
for number in (signal.SIGTERM, signal.SIGINT):  # the first signal ends it in order, the second at once
    signal.signal(number, lambda *_: os._exit(1) if stopping.is_set() else stopping.set())
logging.info("%s works on %s", WORKER, ", ".join(handlers))
for _ in range(SLOTS): threading.Thread(target=work, daemon=True).start()
while not stopping.wait(1): send_heartbeats()  # on this thread: a heartbeat after `leave` would register the worker again
grace_end = time.monotonic() + GRACE
while threading.active_count() > 1 and time.monotonic() < grace_end: send_heartbeats(); time.sleep(1)
if leased_jobs: post("release", {"items": [job.item(delaySeconds=1) for job in list(leased_jobs.values())]})  # not to this worker
leased_jobs.clear(); post("leave", {"workerId": WORKER}, tries=1); sys.exit(refused.is_set())  # not missing first
