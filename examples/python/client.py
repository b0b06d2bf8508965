"""Submits a job to Consign and follows it to its end, in plain Python.
Start it with: CONSIGN_KEY=$(cat consign-data/admin.key) python3 client.py email '{"to": "ada@example.org"}'
It ends with 0 when the job is Completed, 3 Failed, 4 Poisoned, 5 Cancelled; 1 when it was not accepted."""
import argparse, http.client, json, os, random, sys, time, uuid
from urllib import error, parse, request

URL = os.environ.get("CONSIGN_URL", "http://127.0.0.1:8470")
KEY = os.environ.get("CONSIGN_KEY") or sys.exit("first: export CONSIGN_KEY=$(cat consign-data/admin.key)")
ENDINGS = {"Completed": 0, "Failed": 3, "Poisoned": 4, "Cancelled": 5}
PATIENCE = 120  # seconds without an answer until the client gives up


def ask(path, headers, body=None):
    """Retries until there is an answer. The Idempotency-Key makes that safe, even if one got lost."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    wait, give_up = 0.25, time.monotonic() + PATIENCE
    while True:
        try:
            asked = request.Request(parse.urljoin(URL, path), data, headers)
            with request.urlopen(asked, timeout=60) as answer:
                return answer.headers, json.load(answer)
        except error.HTTPError as no:
            if no.code == 304:
                return no.headers, None
            if no.code < 500 and no.code not in (408, 429):  # final: nothing was stored
                sys.exit(f"refused: {no.read().decode()}")
            reason, after = no, no.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException, ValueError) as lost:
            reason, after = lost, ""
        if time.monotonic() > give_up:
            sys.exit(f"gave up: {reason}; with --key {given.key} you can safely start again")
        print(f"{reason}; asking again", file=sys.stderr)
        chance = wait * random.uniform(0.5, 1)  # jitter, so that clients do not return at the same time
        time.sleep(max(chance, int(after) if after.isdigit() else 0))
        wait = min(wait * 2, 10)


def hand_over(job, key):
    """The address of the status of a job that is on disk now."""
    _, taken = ask("/api/jobs", {"Idempotency-Key": key}, job)
    known = ", which was known already" if taken["duplicate"] else ""
    print(f"submitted as {taken['jobId']}{known}", flush=True)
    return taken["statusUrl"]


def follow(address):
    """Every status that is news, until the job has ended: the server answers when something happens."""
    headers, status = ask(address, {})
    while True:
        if status:
            yield status
            if status["status"] in ENDINGS:
                return
            etag = headers["ETag"]
        headers, status = ask(f"{address}?wait=30", {"If-None-Match": etag})


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
given = parser.parse_args()
job = {"jobType": given.type, "subjectId": given.subject, "payload": given.payload}
for status in follow(hand_over(job, given.key)):
    print(line(status), flush=True)
print(json.dumps(status["result"]))
sys.exit(ENDINGS[status["status"]])
