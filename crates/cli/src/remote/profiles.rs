//! The file of profiles: servers and their keys, readable by one user alone.

use super::UsageError;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;
use wire::Secret;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The profile for commands that name none.
    pub(crate) default: Option<String>,
    pub(crate) profiles: BTreeMap<String, Profile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: String,
    pub(crate) key: Option<Secret>,
    pub(crate) ca: Option<PathBuf>,
}

impl Profiles {
    pub(crate) fn get(&self, name: &str) -> Result<&Profile> {
        let names: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        let existing = match &names[..] {
            [] => "there are no profiles yet: consign profile add".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        let missing = || UsageError::new(format!("there is no profile `{name}`; {existing}"));
        Ok(self.profiles.get(name).ok_or_else(missing)?)
    }
}

/// The profiles in the file; empty where there is no file.
pub(crate) fn read(path: Option<&Path>) -> Result<Profiles> {
    let Some(path) = path else { return Ok(Profiles::default()) };
    let shown = path.display();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Profiles::default());
        }
        Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
    };
    let mode = file.metadata()?.mode();
    if mode & 0o077 != 0 {
        let mode = mode & 0o777;
        bail!(
            "{shown} holds keys, and others can read or write it (mode {mode:o}); mend it with: chmod 600 {shown}"
        );
    }
    let text = io::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    // The error of `toml` would show the line, which may contain a key.
    toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        anyhow::anyhow!(
            "{shown} is no file of profiles: line {line} is wrong; mend it, or move it away"
        )
    })
}

/// Writes the file as a whole or not at all, readable by this user alone.
pub(crate) fn write(path: &Path, profiles: &Profiles) -> Result<()> {
    let write_file = || -> Result<()> {
        let folder = path.parent().context("it has no folder")?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = NamedTempFile::new_in(folder)?; // mode 0600 from the beginning
        file.write_all(toml::to_string(profiles)?.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(folder)?.sync_all()?;
        Ok(())
    };
    write_file().with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn one() -> Profiles {
        let key = Some(Secret::new("csk_secret"));
        let profile = Profile { url: "https://x".into(), key, ca: None };
        Profiles { default: Some("prod".into()), profiles: [("prod".into(), profile)].into() }
    }

    #[test]
    fn the_profiles_file_is_private_to_its_owner() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("consign/profiles.toml");
        assert!(read(Some(&path)).unwrap().profiles.is_empty());
        write(&path, &one()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let back = read(Some(&path)).unwrap();
        assert_eq!(back.get("prod").unwrap().key, Some(Secret::new("csk_secret")));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let message = read(Some(&path)).unwrap_err().to_string();
        assert!(message.contains("chmod 600"), "{message}");
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_without_showing_a_key() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("profiles.toml");
        write(&path, &one()).unwrap();
        let text = fs::read_to_string(&path).unwrap().replace("\"csk_secret\"", "\"csk_secret");
        fs::write(&path, text).unwrap();
        let message = format!("{:#}", read(Some(&path)).unwrap_err());
        assert!(message.contains("line") && !message.contains("csk_"), "{message}");
    }
}
