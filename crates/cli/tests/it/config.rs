//! `consign config` as an operator types it.

use super::{RunResult, consign, consign_with};
use std::fs;
use tempfile::TempDir;

fn folder(file: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("consign.toml"), file).unwrap();
    folder
}

#[track_caller]
fn check_output(result: &RunResult, success: bool, parts: &[&str]) {
    assert_eq!(result.success, success, "{}{}", result.out, result.err);
    for part in parts {
        let all = format!("{}{}", result.out, result.err);
        assert!(all.contains(part), "nothing of {part:?} in:\n{all}");
    }
}

#[test]
fn sound_settings_are_checked_and_warned_of() {
    let folder = folder("[types.email]\nlease = \"1m\"\ntimeout = \"1m\"");
    let result = consign(folder.path(), &["config", "check"]);
    let warned = "warning: consign.toml:1:8: type email: timeout 1m is not longer";
    check_output(
        &result,
        true,
        &[warned, "no retention is set", "the settings are sound", "1 type;"],
    );
}

#[test]
fn config_check_reports_all_mistakes_with_their_places() {
    let folder = folder("lisen = \"x\"\n[limits]\nconnections = \"many\"");
    let result = consign_with(folder.path(), &["config", "check"], &[("CONSIGN_STROE", "x")]);
    let expected = [
        "mistake: CONSIGN_STROE: this variable means nothing here; did you mean `CONSIGN_STORE`?\n",
        "mistake: consign.toml:1:1: unknown key `lisen`; did you mean `listen`?\n",
        "mistake: consign.toml:3:15: `connections` must be a whole number without quotes, but is a text\n",
    ];
    assert_eq!((result.out, result.success), (expected.concat(), false));
}

#[test]
fn a_named_file_has_to_be_there() {
    let folder = TempDir::new().unwrap();
    check_output(&consign(folder.path(), &["config", "check"]), true, &["the settings are sound"]);
    let result = consign(folder.path(), &["config", "show", "--config", "mine.toml"]);
    check_output(&result, false, &["there is no file of settings at mine.toml"]);
    let named = [("CONSIGN_CONFIG", "other.toml")];
    let result = consign_with(folder.path(), &["config", "check"], &named);
    check_output(&result, false, &["there is no file of settings at other.toml"]);
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let folder = folder("strict_types = true\n[types.email]\nmax_attempts = 5");
    let words = ["config", "show", "--listen", "127.0.0.1:0"];
    let result = consign_with(folder.path(), &words, &[("CONSIGN_LOG_LEVEL", "debug")]);
    assert!(result.success, "{}", result.err);
    for (line, origin) in [
        ("listen = \"127.0.0.1:0\"", "flag --listen"),
        ("store = \"sqlite:consign-data/consign.db\"", "default"),
        ("strict_types = true", "consign.toml:1"),
        ("level = \"debug\"", "environment CONSIGN_LOG_LEVEL"),
        ("# cert =", "not set"),
        ("max_attempts = 5", "consign.toml:3"),
        ("lease = \"30s\"", "default"),
    ] {
        let shown =
            |shown: &&str| shown.starts_with(line) && shown.ends_with(&format!("# {origin}"));
        assert!(
            result.out.lines().any(|text| shown(&text)),
            "{line} # {origin} in:\n{}",
            result.out
        );
    }
    fs::write(folder.path().join("shown.toml"), &result.out).unwrap();
    let again = consign(folder.path(), &["config", "check", "--config", "shown.toml"]);
    check_output(&again, true, &["the settings are sound"]);
}

#[test]
fn config_check_covers_certificates_and_addresses() {
    let folder = folder("listen = \"[::]:0\"\n[tls]\ncert = \"none.pem\"\nkey = \"none.key\"");
    let result = consign(folder.path(), &["config", "check"]);
    check_output(&result, false, &["mistake: the certificate none.pem cannot be read by user "]);
    let result = consign(
        folder.path(),
        &["config", "check", "--config", "/dev/null", "--listen", "0.0.0.0:0"],
    );
    check_output(
        &result,
        false,
        &["mistake: --listen: ", "[tls]", "behind_proxy = true", "127.0.0.1"],
    );
}
