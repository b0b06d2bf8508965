// Submits a job to Consign and follows it to its end, in TypeScript, for Node 18 and without dependencies.
//
//     CONSIGN_KEY=$(cat consign-data/admin.key) node out/client.js email '{"to": "ada@example.org"}'
//
// It ends with 0 when the job is Completed, 3 Failed, 4 Poisoned, 5 Cancelled; 1 when it was not accepted.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const url = process.env.CONSIGN_URL ?? "http://127.0.0.1:8470";
const key = process.env.CONSIGN_KEY || exitWith("first: export CONSIGN_KEY=$(cat consign-data/admin.key)");
const endings: Record<string, number> = { Completed: 0, Failed: 3, Poisoned: 4, Cancelled: 5 };
const unansweredMsMax = 120_000; // without an answer until the client gives up
const rejectedMsMax = 10_000; // of 401 until the client gives up: a node may learn of a key late

type Submitted = { jobId: string; statusUrl: string; duplicate: boolean };
type Answer<Body> = { etag: string; body: Body | null };
type Status = {
  status: string; attempt: number; maxAttempts: number; errorCode: string | null; errorMessage: string | null;
  progress: { percent: number; note: string | null } | null; result: unknown;
};

/**
 * Retries until there is an answer. A job is submitted with an Idempotency-Key, so a retry is safe even when
 * the first answer got lost.
 */
async function send<Body>(path: string, more: Record<string, string>, body?: object): Promise<Answer<Body>> {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...more };
  const method = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const start = Date.now();
  for (let waitMs = 250; ; waitMs = Math.min(waitMs * 2, 10_000)) {
    let [reason, afterMs] = ["", 0];
    try {
      const signal = AbortSignal.timeout(60_000);
      const answer = await fetch(new URL(path, url), { ...method, headers, signal });
      const etag = answer.headers.get("ETag") ?? "";
      if (answer.status === 304) return { etag, body: null };
      if (answer.ok) return { etag, body: (await answer.json()) as Body };
      reason = await answer.text();
      const mayBeKnownSoon = answer.status === 401 && Date.now() < start + rejectedMsMax;
      const isTemporary = answer.status >= 500 || [408, 429].includes(answer.status);
      if (!isTemporary && !mayBeKnownSoon) exitWith(`refused: ${reason}`); // nothing was stored
      afterMs = Number(answer.headers.get("Retry-After") ?? 0) * 1000 || 0;
    } catch (failure) {
      reason = String(failure instanceof Error ? (failure.cause ?? failure.message) : failure);
    }
    if (Date.now() > start + unansweredMsMax) exitWith(`gave up: ${reason}; with --key ${idempotencyKey} you can safely start again`);
    console.error(`${reason}; asking again`);
    const jitteredMs = waitMs * (0.5 + Math.random() / 2); // jitter, so that clients do not return at the same time
    await sleep(Math.max(afterMs, jitteredMs));
  }
}

/** The address of the status of a job that is on disk now. */
async function submit(job: object): Promise<string> {
  const { body: submitted } = await send<Submitted>("/api/jobs", { "Idempotency-Key": idempotencyKey }, job);
  if (!submitted) throw new Error("the answer to a submit has no body");
  console.log(`submitted as ${submitted.jobId}${submitted.duplicate ? ", which was known already" : ""}`);
  return submitted.statusUrl;
}

/** Each new status, until the job has ended: the server answers when the status changes. */
async function* follow(address: string): AsyncGenerator<Status> {
  let answer = await send<Status>(address, {});
  for (;;) {
    if (answer.body) yield answer.body;
    if (answer.body && answer.body.status in endings) return;
    answer = await send(`${address}?wait=30`, { "If-None-Match": answer.etag });
  }
}

/** One status in one line. */
function line({ status, attempt, maxAttempts, progress, errorCode, errorMessage }: Status): string {
  const parts = [`${status}, attempt ${attempt} of ${maxAttempts}`];
  if (progress && status === "Running") parts.push(`${progress.percent} % ${progress.note ?? ""}`);
  if (errorCode) parts.push(`${errorCode}: ${errorMessage ?? ""}`);
  return parts.join("  ");
}

function exitWith(text: string): never {
  console.error(text);
  process.exit(1);
}

function json(text: string): unknown {
  try { return JSON.parse(text); } catch { return exitWith(`this is no JSON: ${text}`); }
}

const options = { subject: { type: "string" }, key: { type: "string" } } as const;
const { values, positionals: [jobType, payload] } = parseArgs({ options, allowPositionals: true });
const idempotencyKey = values.key ?? randomUUID();
if (!jobType || !payload) exitWith("usage: client.js TYPE PAYLOAD [--subject SUBJECT] [--key IDEMPOTENCY_KEY]");
const job = { jobType, payload: json(payload), subjectId: values.subject };
for await (const status of follow(await submit(job))) {
  console.log(line(status));
  if (status.status in endings) console.log(JSON.stringify(status.result));
  process.exitCode = endings[status.status];
}
