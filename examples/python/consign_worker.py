"""Runs handlers for the jobs of a Consign server, in plain Python. Copy it as it is; worker.py shows how to use it."""
import http.client, json, logging, os, signal, socket, sys, threading, time, types, urllib.error, urllib.request, uuid

URL = os.environ.get("CONSIGN_URL", "http://127.0.0.1:8470") + "/api/work/"
KEY = os.environ.get("CONSIGN_KEY") or sys.exit("first: export CONSIGN_KEY=$(cat consign-data/admin.key)")
SLOTS = int(os.environ.get("CONSIGN_SLOTS", 4))  # how many jobs at once
GRACE = float(os.environ.get("CONSIGN_GRACE", 20))  # seconds for running jobs when the worker is asked to end
PATIENCE = float(os.environ.get("CONSIGN_PATIENCE", 60))  # seconds of 401 or 403: a node may learn of a key late
WORKER = f"{socket.gethostname()}-{os.getpid()}"
handlers, leased_jobs, stopping, refused_since = {}, {}, threading.Event(), None


class Fail(Exception):  # the job is tried again, as after any exception, unless retryable=False or another outcome
    def __init__(self, code, message, outcome="failed", **more):
        self.ending = {"outcome": outcome, "errorCode": code, "errorMessage": message, **more}


class Job(types.SimpleNamespace):  # the claimed job as the server sent it: job.jobId, job.payload, job.attempt, …
    cancelled, new_progress, sent_progress = False, None, None
    def report(self, percent, note): self.new_progress = {"percent": int(percent), "note": note}
    def item(self, **more): return {"jobId": self.jobId, "token": self.lease["token"], **more}

    def step(self, name, function):  # a step that is done is not done again: the next attempt gets the same result
        answer = self.mark_step(name=name, action="begin")
        if answer["state"] != "done": answer = self.mark_step(name=name, action="finish", result=function())
        return answer["result"]

    def mark_step(self, **more):
        answer = post("steps", self.item(**more))
        if "problem" in answer: raise Fail(answer["problem"]["errorCode"], answer["problem"]["detail"])
        return answer

    def needs_heartbeat(self):  # after a third of the lease; after a second if there is new progress
        interval = self.lease["leaseSeconds"] / 3
        if self.new_progress is not self.sent_progress: interval = min(1, interval)
        return time.monotonic() - self.sent_at > interval


def handler(job_type): return lambda function: handlers.setdefault(job_type, function)


def ask(path, body):  # one request: the HTTP status, and the JSON of the answer
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    try: answer = urllib.request.urlopen(request, timeout=10 + body.get("waitSeconds", 0))
    except urllib.error.HTTPError as refusal: answer = refusal
    with answer: return answer.code, json.load(answer)


def post(path, body, tries=10**6):  # retries until it is answered: a repeated request of a worker counts once
    global refused_since
    for wait in ([1, 2] + [5] * 10**6)[:tries]:
        try: status, answer = ask(path, body)
        except (OSError, http.client.HTTPException, ValueError) as error: status, answer = 0, error
        if status == 200: refused_since = None; return answer
        logging.warning("%s: %s %s", path, status or "no answer:", answer)
        if 400 <= status < 500 and status not in (401, 403, 408, 429): return {"problem": answer}  # it is final
        since = refused_since = (refused_since or time.monotonic()) if status in (401, 403) else None
        if since and time.monotonic() - since > PATIENCE: os._exit(1)
        time.sleep(wait)
    return {}


def work():  # one slot: claims, runs, settles; a repeated claimId brings the same job
    while not stopping.is_set():
        claim = {"workerId": WORKER, "claimId": str(uuid.uuid4()), "jobTypes": list(handlers), "waitSeconds": 5}
        answer = post("claim", claim)
        if "problem" in answer: os._exit(1)
        for claimed in answer["jobs"]:
            job = leased_jobs[claimed["lease"]["token"]] = Job(**claimed, sent_at=time.monotonic())
            if stopping.is_set(): return  # too late: it is given back with the others
            ending = run(job)
            problem = settle(job, ending)
            if problem.get("status") in (400, 413):  # a result that is too large: unreported, the job would end as lost
                retryable = ending.get("retryable", ending["outcome"] == "failed")
                settle(job, Fail(problem["errorCode"], problem["detail"], retryable=retryable).ending)
            leased_jobs.pop(job.lease["token"], None)


def run(job):
    logging.info("%s %s: attempt %s (%s)", job.jobType, job.jobId, job.attempt, job.correlationId)
    try:
        result = handlers[job.jobType](job)
        json.dumps(result, allow_nan=False)  # what is no JSON fails here, and not in the report
        return {"outcome": "completed", "result": result}
    except Fail as fail: return fail.ending
    except Exception as error:
        logging.exception("%s", job.jobId); return {"outcome": "failed", "errorMessage": repr(error)[:500]}


def settle(job, ending):
    answer = post("settle", {"items": [job.item(**ending)]})
    item = answer.get("items", [answer])[0]
    logging.info("%s %s: %s", job.jobType, job.jobId, item.get("status") or item["problem"])
    return item.get("problem") or {}


def send_heartbeats():  # extends leases and reports progress; the answer says which jobs should stop
    jobs = [job for job in list(leased_jobs.values()) if job.needs_heartbeat()]
    if not jobs: return
    sent_at, sent = time.monotonic(), [job.new_progress for job in jobs]
    leases = [job.item(progress=progress) for job, progress in zip(jobs, sent)]
    answer = post("heartbeat", {"workerId": WORKER, "leases": leases}, tries=1)  # not retried: the next one repeats it
    for job, progress, lease in zip(jobs, sent, answer.get("leases", [])):
        job.sent_at, job.sent_progress, job.cancelled = sent_at, progress, lease["state"] != "extended"


def run_worker():  # until SIGTERM or Ctrl-C: the first signal ends it in order, the second at once
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(1) if stopping.is_set() else stopping.set())
    logging.info("%s works on %s", WORKER, ", ".join(handlers))
    for _ in range(SLOTS): threading.Thread(target=work, daemon=True).start()
    while not stopping.wait(0.3): send_heartbeats()  # on this thread: none may follow `leave`
    grace_end = time.monotonic() + GRACE
    while threading.active_count() > 1 and time.monotonic() < grace_end: send_heartbeats(); time.sleep(0.3)
    rest = [job.item(delaySeconds=1) for job in list(leased_jobs.values())]  # not to this worker
    leased_jobs.clear()
    if rest: post("release", {"items": rest}, tries=3)
    post("leave", {"workerId": WORKER}, tries=1)  # so that it is not listed as lost
