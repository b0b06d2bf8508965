//! Apply the job types that `consign.toml` names.

use crate::{Actor, Error, Platform, policy::put_policy, request::TypedRequest};
use engine::{FilePolicy, JobType, Policy, PolicySource, Scope};
use std::collections::BTreeMap;
use store::{RecordBody, RecordChange, RecordName, Request};

/// What a file of settings changed at the start of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypesDeclared {
    /// The types whose policy the file changed.
    pub changed: Vec<JobType>,
    /// Those among them whose policy the API had set: the file has replaced it.
    pub overridden: Vec<JobType>,
    /// The types that the file named before and names no more. They keep their policies, which
    /// from now on only the API changes.
    pub released: Vec<JobType>,
}

impl Platform {
    /// Sets the policies of the types that the file of settings names, all in one transaction. An
    /// unchanged policy gets no second audit entry.
    ///
    /// The file wins over the API, or a node would not run as its file says. The caller tells the
    /// operator what was replaced.
    pub async fn declare_types(
        &self,
        named: &BTreeMap<JobType, Policy>,
        actor: &Actor,
    ) -> Result<TypesDeclared, Error> {
        let (policies, in_file) = (self.store.policies().await?, self.store.file_policies().await?);
        let (mut requests, mut result) = (Vec::new(), TypesDeclared::default());
        for (job_type, policy) in named {
            let (before, file_before) = (policies.get(job_type), in_file.get(job_type));
            if before != Some(policy) {
                requests.push(put_policy(job_type, before, policy, Some(actor), None).request);
                result.changed.push(job_type.clone());
                match PolicySource::of(before, file_before) {
                    PolicySource::Api | PolicySource::FileThenApi => {
                        result.overridden.push(job_type.clone());
                    }
                    PolicySource::Default | PolicySource::File => {}
                }
            }
            if file_before.is_none_or(|FilePolicy(before)| before != policy) {
                requests.push(put_file_policy(job_type, policy));
            }
        }
        let released = in_file.into_keys().filter(|job_type| !named.contains_key(job_type));
        result.released = released.collect();
        requests.extend(result.released.iter().map(remove_file_policy));
        if !requests.is_empty() {
            self.change_setting(TypedRequest::without_answer(Request::All(requests))).await?;
        }
        Ok(result)
    }
}

fn put_file_policy(job_type: &JobType, policy: &Policy) -> Request {
    let in_file = FilePolicy(policy.clone());
    Request::PutRecord(RecordChange::put(Scope::All, job_type.as_str(), &in_file))
}

fn remove_file_policy(job_type: &JobType) -> Request {
    let (kind, key) = (FilePolicy::RECORD, job_type.as_str().into());
    Request::PutRecord(RecordChange::remove(RecordName { kind, scope: Scope::All, key }))
}
