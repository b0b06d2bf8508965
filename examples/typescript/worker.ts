// A worker with one handler: put your own in its place. It needs consign-worker.ts beside it.
//
//     CONSIGN_KEY=$(cat consign-data/admin.key) node out/worker.js

import { setTimeout as sleep } from "node:timers/promises";
import { Fail, type Job, runWorker } from "./consign-worker.js";

type Mail = { to?: string; seconds?: number; failures?: number; result?: unknown };

/** Simulated: it takes `seconds`, fails in the first `failures` attempts, and returns `result`. */
async function send(job: Job) {
  const mail = job.claimed.payload as Mail;
  if (mail?.constructor !== Object) throw new Fail("BAD_PAYLOAD", "no object", { outcome: "poisoned" });
  if (mail.to?.includes("@") === false) throw new Fail("NO_ADDRESS", "no @ in it", { retryable: false });
  for (let percent = 0; percent < 100; percent += 5) {
    job.report(percent, percent < 40 ? "connecting" : "sending");
    await sleep(((mail.seconds ?? 5) * 1000) / 20, undefined, { signal: job.signal });
  }
  if (job.claimed.attempt <= (mail.failures ?? 0)) throw new Fail("SMTP_DOWN", "no answer");
  return mail.result ?? { sent: true };
}

runWorker({ email: send });
