//! Claim: a worker gets jobs, each under a lease; a worker that has hung up gets none.

use crate::{
    AppState, auth::PresentedCredential, connections::Connection, context::RequestContext,
    error::Reply, extract::JsonBody,
};
use axum::{
    Extension,
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{Release, ReleaseReason, Scope};
use http_body::{Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use store::Claimed;
use tokio::{runtime::Handle, task::yield_now, time::sleep};
use wire::{CheckedClaim, ClaimAnswer, ClaimRequest, ClaimedJob};

pub(crate) async fn claim(
    context: RequestContext,
    credential: PresentedCredential,
    Extension(connection): Extension<Arc<Connection>>,
    JsonBody(request, _): JsonBody<ClaimRequest>,
) -> Reply<Response> {
    connection.begin_leasing();
    let CheckedClaim { mut claim_request, wait } = request.check()?;
    context.grant().may_claim(&claim_request.job_types)?;
    // Names of claims can be guessed: only the credential that sent a claim gets its leases again.
    claim_request.claim = claim_request.claim.of_principal(&context.caller.0.who);
    let worker = claim_request.worker.clone();
    let claimed = match wait.is_zero() {
        true => context.node().claim(context.scope(), claim_request).await?,
        false => wait_for_work(&context, claim_request, wait).await?,
    };
    let undelivered = UndeliveredLeases { claimed, app: context.app.clone() };
    if !wait.is_zero() {
        // A credential may end before the wait does. Then the jobs are released without using up an
        // attempt.
        credential.check_still_valid(&undelivered.app).await?;
    }
    if !undelivered.claimed.is_empty() {
        // The connection reads once more before it writes, and drops this request if its client is
        // gone. Without this yield, a store that answers at once would leave it no chance to read.
        yield_now().await;
    }
    let (app, claimed) = (&undelivered.app, &undelivered.claimed);
    app.claim_log.count(&context.caller.0.who, &worker, claimed.len(), app.monotonic());
    let jobs = undelivered
        .claimed
        .iter()
        .filter_map(|Claimed { job, payload }| Some(ClaimedJob::new(job, job.lease()?, payload)));
    let answer = ClaimAnswer { jobs: jobs.collect() };
    let bytes = serde_json::to_vec(&answer).expect("an answer is texts and numbers");
    let body = Body::new(ClaimBody { bytes: Some(bytes.into()), undelivered: Some(undelivered) });
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Waits for work. Dropped because its client is gone, the wait leaves nothing leased.
async fn wait_for_work(
    context: &RequestContext,
    claim_request: engine::ClaimRequest,
    wait: Duration,
) -> Reply<Vec<Claimed>> {
    let _slot = match context.waiting_slot(None) {
        Ok(slot) => slot,
        // Work that is available is returned all the same. Only a claim that would have to wait is
        // refused.
        Err(no_slot) => {
            let claimed = context.node().claim(context.scope(), claim_request).await?;
            return if claimed.is_empty() { Err(no_slot.into()) } else { Ok(claimed) };
        }
    };
    let mut waiting_claim = context.node().claim_waiting(context.scope().clone(), claim_request);
    tokio::select! {
        claimed = &mut waiting_claim => return Ok(claimed?),
        () = sleep(wait) => {}
        () = context.app.closed() => {}
    }
    Ok(waiting_claim.withdraw().await?)
}

/// The body of a claim's answer. If it is never sent, its jobs are released without using up an
/// attempt.
struct ClaimBody {
    bytes: Option<Bytes>,
    undelivered: Option<UndeliveredLeases>,
}

/// Leased jobs that are not delivered yet. Drop releases them.
struct UndeliveredLeases {
    app: AppState,
    claimed: Vec<Claimed>,
}

impl http_body::Body for ClaimBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(undelivered) = self.undelivered.take() {
            undelivered.mark_delivered(); // it is being sent
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

impl UndeliveredLeases {
    /// The worker has the jobs.
    fn mark_delivered(mut self) {
        self.claimed.clear();
    }
}

impl Drop for UndeliveredLeases {
    fn drop(&mut self) {
        let releases: Vec<Release> = self.claimed.iter().filter_map(release_of).collect();
        if releases.is_empty() {
            return;
        }
        let app = self.app.clone();
        let Ok(runtime) = Handle::try_current() else { return };
        // If this fails, the leases expire by themselves.
        runtime.spawn(async move { drop(app.node.release(&Scope::All, releases).await) });
    }
}

fn release_of(claimed: &Claimed) -> Option<Release> {
    Some(Release {
        id: claimed.job.id(),
        token: claimed.job.lease()?.token,
        reason: ReleaseReason::Undelivered,
        delay: Duration::ZERO,
    })
}
