//! The secrets that sign pushed jobs, one for each job type.
//!
//! The store keeps one key for all its nodes, and the secret of a type is derived from it. So a
//! receiver is given the secret of its own type (`consign keys webhook TYPE`) and cannot sign as if
//! it pushed jobs of another. The key itself signs nothing.
//!
//! Earlier versions kept the key in a file in the data folder. The first start takes such a file
//! over, so that receivers go on with the secrets that they have.

use anyhow::{Context, Result};
use engine::{JobType, WebhookKey};
use outbound::Signer;
use platform::Node;
use server::data_folder::secret_file;
use std::path::Path;
use store::RandomSource;
use tracing::{info, warn};

/// Name of the file in which the data folder of an earlier version has the key.
pub(crate) const NAME: &str = "webhook.key";

/// Makes the signer of each type.
pub(crate) struct TypeSigners(Signer);

impl TypeSigners {
    /// Those of the store's key. Where the store has none, that of the file in `folder` becomes the
    /// store's, or a new one.
    pub(crate) async fn ensure(
        node: &Node,
        folder: &Path,
        random: &dyn RandomSource,
    ) -> Result<Self> {
        if let Some(key) = node.webhook_key().await.context(UNREADABLE)? {
            warn_of_other_file(folder, &key);
            return TypeSigners::of(&key);
        }
        let path = folder.join(NAME);
        let in_file = in_file(&path)?;
        let is_from_file = in_file.is_some();
        let candidate = in_file.unwrap_or_else(|| fresh(random));
        let key = node.ensure_webhook_key(candidate.clone()).await.context(UNREADABLE)?;
        if !is_from_file {
            return TypeSigners::of(&key);
        }
        match key == candidate {
            true => info!(
                path = %path.display(),
                "the store keeps the webhook key from now on: this file is not read any more"
            ),
            false => warn_of_other_file(folder, &key),
        }
        TypeSigners::of(&key)
    }

    /// Those of this key.
    pub(crate) fn of(key: &WebhookKey) -> Result<Self> {
        Ok(TypeSigners(Signer::parse(&key.0).context("the webhook key of the store is damaged")?))
    }

    /// The signer for the pushes of this type and of no other.
    pub(super) fn of_type(&self, job_type: &JobType) -> Signer {
        let text = self.secret_of_type(job_type);
        Signer::parse(&text).expect("32 bytes are a valid secret")
    }

    /// The secret of a type, as its receivers need it.
    pub(crate) fn secret_of_type(&self, job_type: &JobType) -> String {
        Signer::write(&self.0.derive(&format!("{PURPOSE}{job_type}")))
    }
}

const UNREADABLE: &str = "the webhook key of the store cannot be used";

/// The context of the derivation. A secret derived for another purpose cannot be the same.
const PURPOSE: &str = "consign/webhook/type/v1/";

/// The key in a file; `None` where there is no file.
pub(crate) fn in_file(path: &Path) -> Result<Option<WebhookKey>> {
    let Some(text) = secret_file::read(path)? else { return Ok(None) };
    Signer::parse(&text).with_context(|| {
        let shown = path.display();
        format!("{shown} cannot be used; move it away, and the next start makes a new key")
    })?;
    Ok(Some(WebhookKey(text.into())))
}

/// A receiver that was given a secret of the file refuses what this node pushes.
fn warn_of_other_file(folder: &Path, key: &WebhookKey) {
    let path = folder.join(NAME);
    // A file that cannot be read is as good as none: it has no effect any more.
    if let Ok(Some(in_file)) = in_file(&path)
        && in_file != *key
    {
        warn!(
            path = %path.display(),
            "this webhook key is not used: the store has another; `consign keys webhook TYPE` prints the secrets in force"
        );
    }
}

fn fresh(random: &dyn RandomSource) -> WebhookKey {
    let entropies = [random.entropy().0.to_be_bytes(), random.entropy().0.to_be_bytes()];
    let bytes = entropies.as_flattened().try_into().expect("two values of entropy are 32 bytes");
    WebhookKey(Signer::write(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::{Settings, SystemClock, SystemRandom};
    use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};
    use store::Memory;

    fn node(store: Memory) -> Node {
        let clock = Arc::new(SystemClock::new());
        Node::start(Arc::new(store), clock, Arc::new(SystemRandom), Settings::default()).unwrap()
    }

    fn memory() -> Memory {
        Memory::shared(Arc::new(SystemClock::new()), Arc::new(SystemRandom))
    }

    fn ensured(node: &Node, folder: &Path) -> Result<String> {
        let mail = JobType::parse("mail").unwrap();
        let signers = pollster::block_on(TypeSigners::ensure(node, folder, &SystemRandom));
        signers.map(|signers| signers.secret_of_type(&mail))
    }

    fn write(folder: &Path, text: &str, mode: u32) {
        let path = folder.join(NAME);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn all_nodes_of_a_store_sign_alike_and_each_type_has_its_own_secret() {
        let (folder, store) = (tempfile::tempdir().unwrap(), memory());
        let (one, two) = (node(store.another()), node(store));
        let mail = ensured(&one, folder.path()).unwrap();
        assert_eq!(ensured(&two, folder.path()).unwrap(), mail);
        let key = pollster::block_on(one.webhook_key()).unwrap().unwrap();
        let signers = TypeSigners::of(&key).unwrap();
        assert_ne!(signers.secret_of_type(&JobType::parse("fax").unwrap()), mail);
        assert!(*key.0 != *mail && Signer::parse(&mail).is_ok());
        assert!(!format!("{key:?}").contains(&*key.0));
    }

    #[test]
    fn the_file_of_an_earlier_version_is_taken_over_once() {
        let (folder, node) = (tempfile::tempdir().unwrap(), node(memory()));
        write(folder.path(), &Signer::write(&[7; 32]), 0o600);
        let of_file = in_file(&folder.path().join(NAME)).unwrap().unwrap();
        let mail = ensured(&node, folder.path()).unwrap();
        let expected = TypeSigners::of(&of_file).unwrap();
        assert_eq!(mail, expected.secret_of_type(&JobType::parse("mail").unwrap()));
        write(folder.path(), &Signer::write(&[8; 32]), 0o600);
        assert_eq!(ensured(&node, folder.path()).unwrap(), mail, "the store's key stays");
    }

    #[test]
    fn an_invalid_webhook_key_file_stops_the_start() {
        let (folder, node) = (tempfile::tempdir().unwrap(), node(memory()));
        for (text, mode) in
            [("whsec_short", 0o600), ("", 0o600), (&*Signer::write(&[7; 32]), 0o640)]
        {
            write(folder.path(), text, mode);
            let error = format!("{:#}", ensured(&node, folder.path()).err().unwrap());
            assert!(error.contains("webhook.key") && error.contains("move it away"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
