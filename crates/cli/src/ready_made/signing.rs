//! The secret with which pushed jobs are signed, in a file of its own: whoever receives them needs it, too.

use crate::secret_file;
use anyhow::{Context, Result};
use outbound::Signer;
use std::path::Path;
use store::Dice;

/// What the file is called, in the folder of the store.
pub(crate) const NAME: &str = "webhook.key";

/// Reads the secret, or makes one where there is none.
pub(super) fn ensure(folder: &Path, dice: &dyn Dice) -> Result<Signer> {
    let path = folder.join(NAME);
    let text = match secret_file::read(&path)? {
        Some(text) => text,
        None => {
            let text = Signer::write(&fresh(dice));
            secret_file::write(folder, &path, &text)?;
            text
        }
    };
    Signer::parse(&text).with_context(|| {
        format!(
            "{} cannot be used; move it away, and the next start makes a new one",
            path.display()
        )
    })
}

fn fresh(dice: &dyn Dice) -> [u8; 32] {
    let mut secret = [0; 32];
    let (first, second) = secret.split_at_mut(16);
    first.copy_from_slice(&dice.roll().0.to_be_bytes());
    second.copy_from_slice(&dice.roll().0.to_be_bytes());
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::SystemDice;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    #[test]
    fn a_secret_is_made_once_and_kept_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        ensure(folder.path(), &SystemDice).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("whsec_") && text.ends_with('\n'), "{} bytes", text.len());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        ensure(folder.path(), &SystemDice).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn what_is_no_secret_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        for (text, mode) in
            [("whsec_short", 0o600), ("", 0o600), (&*Signer::write(&[7; 32]), 0o640)]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = format!("{:#}", ensure(folder.path(), &SystemDice).err().unwrap());
            assert!(said.contains("webhook.key") && said.contains("move it away"), "{said}");
            assert!(text.is_empty() || !said.contains(text), "{said}");
        }
    }
}
