//! Claim: a worker gets jobs, each under a lease; a worker that is gone gets none.

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
use wire::{ClaimAnswer, ClaimOrder, ClaimRequest, ClaimedJob};

pub(crate) async fn claim(
    context: RequestContext,
    shown: PresentedCredential,
    Extension(connection): Extension<Arc<Connection>>,
    JsonBody(request, _): JsonBody<ClaimRequest>,
) -> Reply<Response> {
    connection.begin_leasing();
    let ClaimOrder { mut wish, wait } = request.check()?;
    context.grant().may_claim(&wish.job_types)?;
    // Names of claims can be guessed: only the credential that sent one gets its leases again.
    wish.claim = wish.claim.of_principal(&context.caller.0.who);
    let claimed = match wait.is_zero() {
        true => context.node().claim(context.scope(), wish).await?,
        false => stand(&context, wish, wait).await?,
    };
    let leased = UndeliveredLeases { claimed, app: context.app };
    if !wait.is_zero() {
        // A credential may end before the wait does. Then the jobs go back at no cost.
        shown.is_good(&leased.app).await?;
    }
    if !leased.claimed.is_empty() {
        // The connection reads once more before it writes, and drops this request where its client
        // is gone. Without a pause it would not, where the store was quicker than this task.
        yield_now().await;
    }
    let jobs = leased
        .claimed
        .iter()
        .filter_map(|Claimed { job, payload }| Some(ClaimedJob::new(job, job.lease()?, payload)));
    let answer = ClaimAnswer { jobs: jobs.collect() };
    let bytes = serde_json::to_vec(&answer).expect("an answer is texts and numbers");
    let body = Body::new(ClaimBody { bytes: Some(bytes.into()), leased: Some(leased) });
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Waits for work. Whoever is dropped meanwhile, because its client is gone, leaves nothing leased.
async fn stand(
    context: &RequestContext,
    wish: engine::ClaimRequest,
    wait: Duration,
) -> Reply<Vec<Claimed>> {
    let _place = match context.place_to_wait(None) {
        Ok(place) => place,
        // What there is goes out all the same. Only one that would wait is told to come again.
        Err(no_place) => {
            let claimed = context.node().claim(context.scope(), wish).await?;
            return if claimed.is_empty() { Err(no_place.into()) } else { Ok(claimed) };
        }
    };
    let mut standing = context.node().stand(context.scope().clone(), wish);
    tokio::select! {
        claimed = &mut standing => return Ok(claimed?),
        () = sleep(wait) => {}
        () = context.app.closed() => {}
    }
    Ok(standing.withdraw().await?)
}

/// An answer that was never asked for costs the jobs nothing: they are given back.
struct ClaimBody {
    bytes: Option<Bytes>,
    leased: Option<UndeliveredLeases>,
}

/// Jobs that nobody has yet. Dropped, it gives them back.
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
        if let Some(leased) = self.leased.take() {
            leased.keep(); // it is on its way
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
    /// They have an owner.
    fn keep(mut self) {
        self.claimed.clear();
    }
}

impl Drop for UndeliveredLeases {
    fn drop(&mut self) {
        let back: Vec<Release> = self.claimed.iter().filter_map(undelivered).collect();
        if back.is_empty() {
            return;
        }
        let app = self.app.clone();
        let Ok(runtime) = Handle::try_current() else { return };
        // Should it fail, the lease's own end will do it.
        runtime.spawn(async move { drop(app.node.release(&Scope::All, back).await) });
    }
}

fn undelivered(claimed: &Claimed) -> Option<Release> {
    Some(Release {
        id: claimed.job.id(),
        token: claimed.job.lease()?.token,
        reason: ReleaseReason::Undelivered,
        delay: Duration::ZERO,
    })
}
