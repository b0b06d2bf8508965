//! A start that died at any point is followed by one that succeeds.

use super::*;
use platform::{SystemClock, SystemRandom};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use store::Memory;
use tempfile::TempDir;

struct Fixture {
    folder: TempDir,
    store: Arc<dyn Store>,
}

impl Fixture {
    fn new() -> Self {
        let store = Memory::new(Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        Fixture { folder: TempDir::new().unwrap(), store: Arc::new(store) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    fn with_keys<T>(&self, work: impl AsyncFnOnce(&AdminKeys<'_>) -> T) -> T {
        let (store, folder) = (&self.store, self.folder.path());
        let clock = SystemClock::new();
        block_on(work(&AdminKeys { store, folder, clock: &clock, random: &SystemRandom }))
    }

    fn start(&self) -> Result<Option<PathBuf>, FileError> {
        self.with_keys(async |keys| keys.ensure().await)
    }

    fn keys(&self) -> Vec<ApiKey> {
        block_on(self.store.keys(None)).unwrap()
    }

    /// The secret in the file.
    fn secret(&self) -> KeySecret {
        KeySecret::parse(fs::read_to_string(self.path()).unwrap().trim()).unwrap()
    }

    fn leave(&self, text: &str, mode: u32) {
        fs::write(self.path(), text).unwrap();
        fs::set_permissions(self.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn a_secret() -> KeySecret {
    KeySecret::new(SystemRandom.entropy(), [SystemRandom.entropy(), SystemRandom.entropy()])
}

#[test]
fn the_first_start_makes_a_key_for_everything_and_the_next_one_leaves_it() {
    let fixture = Fixture::new();
    assert_eq!(fixture.start().unwrap(), Some(fixture.path()));
    let (key, secret) = (&fixture.keys()[0], fixture.secret());
    assert_eq!((key.id, key.digest), (secret.id(), secret.digest()));
    assert!(key.grant.scope == Scope::All && key.grant.rights.include(Right::Work));
    assert_eq!(fs::metadata(fixture.path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(fixture.folder.path()).unwrap().count(), 1, "and nothing else is left");
    let entries = block_on(fixture.store.audit(&Scope::All, None, 10)).unwrap();
    assert_eq!((entries.len(), &*entries[0].action), (1, "key.create"));
    let before = secret.expose();
    assert_eq!(fixture.start().unwrap(), Some(fixture.path()));
    assert_eq!((fixture.keys().len(), fixture.secret().expose()), (1, before));
}

#[test]
fn a_start_that_died_between_file_and_store_is_finished_by_the_next() {
    let fixture = Fixture::new();
    let secret = a_secret();
    fixture.leave(&format!("{}\n", secret.expose()), 0o600);
    assert_eq!(fixture.start().unwrap(), Some(fixture.path()));
    assert_eq!(fixture.keys()[0].digest, secret.digest());
    assert_eq!(fixture.secret().expose(), secret.expose(), "the file is as it was");
}

#[test]
fn a_start_that_died_after_the_store_finds_everything_done() {
    let fixture = Fixture::new();
    let secret = a_secret();
    fixture.with_keys(async |keys| keys.store_key(&secret, FIRST_START, false).await).unwrap();
    // An operator who removed the file keeps the secret elsewhere. No second key is made.
    assert_eq!(fixture.start().unwrap(), None);
    assert!(fixture.keys().len() == 1 && !fixture.path().exists());
    fixture.leave(&secret.expose(), 0o600);
    assert_eq!(fixture.start().unwrap(), Some(fixture.path()));
    assert_eq!(fixture.keys().len(), 1);
}

#[test]
fn a_file_that_cannot_be_trusted_stops_the_start_and_stays_as_it_is() {
    let good = a_secret().expose();
    for (text, mode, expected) in [
        ("", 0o600, "holds no key"),
        ("csk_0123", 0o600, "holds no key"),
        (good.as_str(), 0o644, "can be read or written by others (mode 644)"),
        (good.as_str(), 0o620, "can be read or written by others (mode 620)"),
    ] {
        let fixture = Fixture::new();
        fixture.leave(text, mode);
        let wrong = fixture.start().unwrap_err().to_string();
        assert!(wrong.contains(expected) && !wrong.contains(&good), "{wrong}");
        assert!(fixture.keys().is_empty());
        assert_eq!(fs::read_to_string(fixture.path()).unwrap(), text);
    }
}

#[test]
fn a_link_is_not_followed() {
    let fixture = Fixture::new();
    let elsewhere = fixture.folder.path().join("elsewhere");
    fs::write(&elsewhere, a_secret().expose()).unwrap();
    symlink(&elsewhere, fixture.path()).unwrap();
    assert!(fixture.start().is_err() && fixture.keys().is_empty());
}

#[test]
fn a_lost_admin_key_is_replaced_but_no_file_overwritten() {
    let fixture = Fixture::new();
    fixture.start().unwrap();
    let another = || fixture.with_keys(async |keys| keys.make_another().await);
    assert!(another().unwrap_err().to_string().contains("move it away first"));
    fs::remove_file(fixture.path()).unwrap();
    assert_eq!(another().unwrap(), fixture.path());
    let digests: Vec<_> = fixture.keys().into_iter().map(|key| key.digest).collect();
    assert!(digests.len() == 2 && digests.contains(&fixture.secret().digest()));
}

#[test]
fn a_key_that_another_node_was_faster_to_make_is_not_announced() {
    let fixture = Fixture::new();
    fixture.start().unwrap();
    fixture.leave(&a_secret().expose(), 0o600);
    assert_eq!(fixture.start().unwrap(), None, "the store does not know it");
    assert_eq!(fixture.keys().len(), 1);
}

#[test]
fn of_two_first_keys_the_one_that_the_log_has_first_stays() {
    let fixture = Fixture::new();
    let (early, late) = (a_secret(), a_secret());
    fixture.with_keys(async |keys| {
        for secret in [&early, &late] {
            keys.store_key(secret, FIRST_START, false).await.unwrap();
        }
        assert!(keys.is_first(&early).await.unwrap());
        assert!(!keys.is_first(&late).await.unwrap());
        keys.store_key(&late, FIRST_START, true).await.unwrap();
    });
    let keys = fixture.keys();
    let good: Vec<_> = keys.iter().filter(|key| key.revoked_at.is_none()).collect();
    assert!(keys.len() == 2 && good.len() == 1 && good[0].digest == early.digest());
}
