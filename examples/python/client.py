"""Submits a job to Consign and follows it to its end, in plain Python:
CONSIGN_KEY=$(cat consign-data/admin.key) python3 client.py email '{"to": "ada@example.org"}'
It ends with 0 when the job is Completed, 3 Failed, 4 Poisoned, 5 Cancelled; 1 when it was not accepted."""
import argparse, http.client, json, os, random, sys, time, uuid
from urllib import error, parse, request

URL = os.environ.get("CONSIGN_URL", "http://127.0.0.1:8470")
KEY = os.environ.get("CONSIGN_KEY") or sys.exit("first: export CONSIGN_KEY=$(cat consign-data/admin.key)")
ENDINGS = {"Completed": 0, "Failed": 3, "Poisoned": 4, "Cancelled": 5}
SECONDS_MAX = 120  # without an answer until the client gives up
REJECTED_SECONDS_MAX = 10  # of 401 until the client gives up: a node may learn of a key late


def send(path, headers, body=None):
    """Retries until there is an answer. The Idempotency-Key makes that safe, even if one got lost."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    wait, start = 0.25, time.monotonic()
    while True:
        try:
            with request.urlopen(request.Request(parse.urljoin(URL, path), data, headers), timeout=60) as answer:
                return answer.headers, json.load(answer)
        except error.HTTPError as refusal:
            if refusal.code == 304:
                return refusal.headers, None
            may_be_known_soon = refusal.code == 401 and time.monotonic() < start + REJECTED_SECONDS_MAX
            if refusal.code < 500 and refusal.code not in (408, 429) and not may_be_known_soon:
                sys.exit(f"refused: {refusal.read().decode()}")  # final: nothing was stored
            reason, after = refusal, refusal.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException, ValueError) as failure:
            reason, after = failure, ""
        if time.monotonic() > start + SECONDS_MAX:
            sys.exit(f"gave up: {reason}; with --key {args.key} you can safely start again")
        print(f"{reason}; asking again", file=sys.stderr)
        jittered = wait * random.uniform(0.5, 1)  # jitter, so that clients do not return at the same time
        time.sleep(max(jittered, int(after) if after.isdigit() else 0))
        wait = min(wait * 2, 10)


def submit(job, key):
    """The address of the status of a job that is on disk now."""
    _, submitted = send("/api/jobs", {"Idempotency-Key": key}, job)
    note = ", which was known already" if submitted["duplicate"] else ""
    print(f"submitted as {submitted['jobId']}{note}", flush=True)
    return submitted["statusUrl"]


def follow(address):
    """Every new status, until the job has ended: the server answers when something happens."""
    headers, status = send(address, {})
    while True:
        if status:
            yield status
            if status["status"] in ENDINGS:
                return
            etag = headers["ETag"]
        headers, status = send(f"{address}?wait=30", {"If-None-Match": etag})


def line(status):
    progress, error_code = status["progress"], status["errorCode"]
    parts = [f"{status['status']}, attempt {status['attempt']} of {status['maxAttempts']}"]
    if progress and status["status"] == "Running":
        parts.append(f"{progress['percent']} % {progress['note'] or ''}")
    if error_code:
        parts.append(f"{error_code}: {status['errorMessage'] or ''}")
    return "  ".join(parts)


parser = argparse.ArgumentParser(description="submits a job and follows it to its end")
parser.add_argument("type")
parser.add_argument("payload", type=json.loads, help="JSON")
parser.add_argument("--subject", help="what it is about")
parser.add_argument("--key", default=str(uuid.uuid4()), help="the same key means the same job")
args = parser.parse_args()
job = {"jobType": args.type, "subjectId": args.subject, "payload": args.payload}
for status in follow(submit(job, args.key)):
    print(line(status), flush=True)
print(json.dumps(status["result"]))
sys.exit(ENDINGS[status["status"]])
