// A worker for Consign in TypeScript, for Node 18 and without dependencies: copy it, and put your own
// handlers in the place of `send`.
//
//     CONSIGN_KEY=$(cat consign-data/admin.key) node out/worker.js

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.CONSIGN_URL ?? "http://127.0.0.1:8470";
const key = process.env.CONSIGN_KEY || leave("first: export CONSIGN_KEY=$(cat consign-data/admin.key)");
const slots = Number(process.env.CONSIGN_SLOTS ?? 4); // how many jobs at once
const graceMs = Number(process.env.CONSIGN_GRACE ?? 20) * 1000; // for what runs when we are asked to end
const workerId = `${hostname()}-${process.pid}`;
const held = new Set<Job>();
const lastBeat = new AbortController(); // aborted when no more heartbeats may be sent
let stopping = false;

type Ending = { outcome: "completed" | "failed" | "poisoned" | "cancelled"; [more: string]: unknown };
type Claimed = {
  jobId: string; jobType: string; payload: unknown; attempt: number; correlationId: string;
  lease: { token: string };
};

/** Ends an attempt: tried again, as after any error, unless it says `retryable: false` or another outcome. */
class Fail extends Error {
  readonly ending: Ending;
  constructor(errorCode: string, errorMessage: string, more: Partial<Ending> = {}) {
    super(errorMessage);
    this.ending = { outcome: "failed", errorCode, errorMessage, ...more };
  }
}

/** What a handler gets. Its signal is aborted when it should stop: pass it on to whatever you wait for. */
class Job {
  readonly stop = new AbortController();
  progress: { percent: number; note: string } | null = null;
  constructor(readonly told: Claimed) {}

  get signal() { return this.stop.signal; }
  get name() { return `${this.told.jobType} ${this.told.jobId}`; }
  get lease() { return { jobId: this.told.jobId, token: this.told.lease.token }; }
  report(percent: number, note: string) { this.progress = { percent: Math.floor(percent), note }; }
}

/** One function per job type. Whoever blocks the thread holds up the heartbeats of all. */
const handlers: Record<string, (job: Job) => Promise<unknown>> = { email: send };

/** Only pretends: it takes `seconds`, and fails as often as `failures` says. */
async function send(job: Job) {
  const mail = job.told.payload as { to?: string; seconds?: number; failures?: number };
  if (mail?.constructor !== Object) throw new Fail("BAD_PAYLOAD", "no object", { outcome: "poisoned" });
  if (mail.to?.includes("@") === false) throw new Fail("NO_ADDRESS", "no @ in it", { retryable: false });
  for (let percent = 0; percent < 100; percent += 5) {
    job.report(percent, percent < 40 ? "connecting" : "sending");
    await sleep(((mail.seconds ?? 5) * 1000) / 20, undefined, { signal: job.signal });
  }
  if (job.told.attempt <= (mail.failures ?? 0)) throw new Fail("SMTP_DOWN", "nobody is there");
  return { sent: true };
}

/** Asks until there is an answer: whatever a worker says may be said twice, and counts once. */
async function post<Answer>(path: string, body: object, tries = Infinity): Promise<Answer> {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  for (let waitMs = 200; ; waitMs = Math.min(waitMs * 2, 5000)) {
    try {
      const signal = AbortSignal.timeout(path === "claim" ? 40_000 : 10_000);
      const ask = { method: "POST", headers, body: JSON.stringify(body), signal };
      const answer = await fetch(`${url}/api/work/${path}`, ask);
      if (answer.ok) return (await answer.json()) as Answer;
      const problem = await answer.text();
      log(`${path}: ${problem}`);
      if ([400, 401, 403].includes(answer.status)) process.exit(1); // asking again would not help
    } catch (lost) {
      log(`${path}: ${lost instanceof Error ? (lost.cause ?? lost.message) : lost}`);
    }
    if (--tries === 0) throw new Error(`${path}: no answer`);
    await sleep(waitMs);
  }
}

/** One slot: claims a job, runs it, settles it. A claimId that is asked again brings the same job. */
async function work() {
  while (!stopping) {
    const wish = { workerId, jobTypes: Object.keys(handlers), waitSeconds: 5, leaseSeconds: 30 };
    const claim = await post<{ jobs: Claimed[] }>("claim", { ...wish, claimId: randomUUID() });
    for (const claimed of claim.jobs) {
      const job = new Job(claimed);
      held.add(job);
      if (stopping) return; // it came too late, and is given back with the others
      log(`${job.name}: attempt ${claimed.attempt} (${claimed.correlationId})`);
      const items = [{ ...job.lease, ...(await run(job)) }];
      const told = await post<{ items: { status?: string; problem?: object }[] }>("settle", { items });
      log(`${job.name}: ${told.items[0]?.status ?? JSON.stringify(told.items[0]?.problem)}`);
      held.delete(job);
    }
  }
}

async function run(job: Job): Promise<Ending> {
  try {
    const result = (await handlers[job.told.jobType]?.(job)) ?? null;
    const large = JSON.stringify(result).length > 4096;
    if (large) throw new Fail("RESULT_TOO_LARGE", "over 4 KiB", { retryable: false });
    return { outcome: "completed", result };
  } catch (error) {
    if (job.signal.aborted) return { outcome: "cancelled" };
    if (error instanceof Fail) return error.ending;
    return { outcome: "failed", errorMessage: String(error).slice(0, 500) };
  }
}

/** Says every second that we live and how far each job is, and hears which ones should stop. */
async function beat() {
  for (;;) {
    await sleep(1000, undefined, { signal: lastBeat.signal }).catch(() => null);
    if (lastBeat.signal.aborted) return;
    const jobs = [...held];
    if (jobs.length === 0) continue;
    const leases = jobs.map((job) => ({ ...job.lease, progress: job.progress }));
    const sent = post<{ leases: { state: string }[] }>("heartbeat", { workerId, leases }, 1);
    const told = await sent.catch(() => null); // the next one says it again
    told?.leases.forEach((lease, at) => lease.state === "extended" || jobs[at]?.stop.abort());
  }
}

/** Lets handlers end, and gives back what did not: in a second, when no slot of ours takes it any more. */
async function end() {
  if (stopping) process.exit(1); // asked twice
  stopping = true;
  await Promise.race([Promise.all(working), sleep(graceMs)]);
  lastBeat.abort();
  await beating; // a heartbeat beside `leave` or after it would make us alive again
  const items = [...held].map((job) => ({ ...job.lease, delaySeconds: 1 }));
  held.clear();
  if (items.length > 0) await post("release", { items });
  await Promise.race([post("leave", { workerId }), sleep(2000)]); // gone at once, and not missed first
  process.exit(0);
}

function log(text: string) { console.error(new Date().toISOString(), text); }
function leave(text: string): never { console.error(text); process.exit(1); }

process.on("SIGTERM", end).on("SIGINT", end);
log(`${workerId} works on ${Object.keys(handlers).join(", ")}`);
const beating = beat();
const working = Array.from({ length: slots }, work);
