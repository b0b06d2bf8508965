//! Redrive: give an ended job another life.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{
    Command, Job, JobId, JsonText, Scope, check_max_attempts, check_payload, redrive_options,
};

/// How the new life differs from the one before; by default in nothing.
#[derive(Clone, Default)]
pub struct RedriveOptions {
    /// How many attempts it has.
    pub max_attempts: Option<i64>,
    /// Whether it begins with the first step again.
    pub reset_steps: bool,
    /// A corrected payload, as JSON.
    pub payload: Option<String>,
}

impl Platform {
    /// Queues an ended job again.
    pub async fn redrive(
        &self,
        scope: &Scope,
        id: JobId,
        options: RedriveOptions,
        actor: Option<&Actor>,
    ) -> Result<Job, Error> {
        let RedriveOptions { max_attempts, reset_steps, payload } = options;
        let max_attempts = max_attempts.map(check_max_attempts).transpose()?;
        let payload = match payload {
            Some(payload) => Some(self.corrected_payload(scope, id, &payload).await?),
            None => None,
        };
        let detail = redrive_options(max_attempts, reset_steps, payload.as_ref());
        let command = Command::Redrive { max_attempts, reset_steps, payload };
        let request = TypedRequest::change(scope, id, command);
        self.execute_one(request.audited(actor, "job.redrive", id, detail)).await
    }

    /// Checks a payload as the job's first one was checked.
    async fn corrected_payload(
        &self,
        scope: &Scope,
        id: JobId,
        payload: &str,
    ) -> Result<JsonText, Error> {
        let payload = check_payload(payload, self.settings.payload_bytes_max)?;
        let job = self.job(scope, id).await?;
        let job_type = &job.envelope.job_type;
        let types = self.declared_types([job_type].into_iter()).await?;
        let typed_payload = [(job_type, &payload)];
        let checks = self.check_types(&types, &job.envelope.tenant, &typed_payload).await?;
        checks.into_iter().collect::<Result<(), _>>()?;
        Ok(payload)
    }
}
