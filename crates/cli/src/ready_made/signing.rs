//! The secrets that sign pushed jobs, one for each job type.
//!
//! A file beside the store keeps one key, and the secret of a type is derived from it. So a
//! receiver is given the secret of its own type (`consign keys webhook TYPE`) and cannot sign as if
//! it pushed jobs of another. The key in the file signs nothing itself.

use anyhow::{Context, Result, bail};
use engine::JobType;
use outbound::Signer;
use server::data_folder::secret_file;
use std::path::Path;
use store::RandomSource;

/// Name of the file in the data folder.
pub(crate) const NAME: &str = "webhook.key";

/// The key from which the secrets of all types are derived.
pub(super) struct WebhookKey(Signer);

impl WebhookKey {
    /// Reads the key, or makes one where there is none.
    pub(super) fn ensure(folder: &Path, random: &dyn RandomSource) -> Result<Self> {
        if let Some(key) = WebhookKey::read(folder)? {
            return Ok(key);
        }
        secret_file::write(folder, &folder.join(NAME), &Signer::write(&fresh(random)))?;
        WebhookKey::read(folder)?.context("the file that was written is gone")
    }

    fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(NAME);
        let Some(text) = secret_file::read(&path)? else { return Ok(None) };
        let signer = Signer::parse(&text).with_context(|| {
            let shown = path.display();
            format!("{shown} cannot be used; move it away, and the next start makes a new one")
        })?;
        Ok(Some(WebhookKey(signer)))
    }

    /// The signer for the pushes of this type and of no other.
    pub(super) fn of_type(&self, job_type: &JobType) -> Signer {
        let text = self.secret_of_type(job_type);
        Signer::parse(&text).expect("32 bytes are a valid secret")
    }

    fn secret_of_type(&self, job_type: &JobType) -> String {
        Signer::write(&self.0.derive(&format!("{PURPOSE}{job_type}")))
    }
}

/// The context of the derivation. A secret derived for another purpose cannot be the same.
const PURPOSE: &str = "consign/webhook/type/v1/";

/// The secret of a type, as its receivers need it.
pub(crate) fn secret_of_type(folder: &Path, job_type: &JobType) -> Result<String> {
    let Some(key) = WebhookKey::read(folder)? else {
        let path = folder.join(NAME);
        bail!("there is no {}; the first start of the server makes it", path.display());
    };
    Ok(key.secret_of_type(job_type))
}

fn fresh(random: &dyn RandomSource) -> [u8; 32] {
    let entropies = [random.entropy().0.to_be_bytes(), random.entropy().0.to_be_bytes()];
    entropies.as_flattened().try_into().expect("two values of entropy are 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::SystemRandom;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    #[test]
    fn a_secret_is_made_once_and_kept_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        WebhookKey::ensure(folder.path(), &SystemRandom).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("whsec_") && text.ends_with('\n'), "{} bytes", text.len());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        WebhookKey::ensure(folder.path(), &SystemRandom).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn each_type_has_a_secret_of_its_own_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [mail, fax] = ["mail", "fax"].map(|name| JobType::parse(name).unwrap());
        let error = secret_of_type(folder.path(), &mail).err().unwrap().to_string();
        assert!(error.contains("webhook.key"), "{error}");
        WebhookKey::ensure(folder.path(), &SystemRandom).unwrap();
        let secret = |job_type| secret_of_type(folder.path(), job_type).unwrap();
        assert_eq!(secret(&mail), secret(&mail));
        assert_ne!(secret(&mail), secret(&fax));
        let file_text = fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_ne!(file_text.trim(), secret(&mail));
        assert!(Signer::parse(&secret(&mail)).is_ok());
    }

    #[test]
    fn an_invalid_webhook_key_file_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        for (text, mode) in
            [("whsec_short", 0o600), ("", 0o600), (&*Signer::write(&[7; 32]), 0o640)]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error =
                format!("{:#}", WebhookKey::ensure(folder.path(), &SystemRandom).err().unwrap());
            assert!(error.contains("webhook.key") && error.contains("move it away"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
