//! Reference pages list exactly what the program has, and the scripts that they show work.

use super::serve::Customer;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

#[test]
fn the_index_names_every_page() {
    let index = page("README.md");
    let files = fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    for name in names.filter(|name| name.ends_with(".md") && name != "README.md") {
        assert!(index.contains(&format!("]({name})")), "docs/README.md does not name {name}");
    }
}

#[test]
fn every_code_of_explain_is_explained() {
    let shown: BTreeSet<String> =
        rows(&page("explain.md")).into_iter().map(|[code, ..]| code).collect();
    let known: BTreeSet<String> = wire::REASON_CODES.map(String::from).into();
    assert_eq!(shown, known, "left: docs/explain.md, right: the codes of the wire format");
}

#[test]
fn every_metric_is_explained() {
    let customer = Customer::new();
    customer.queued("email");
    let scraped = customer.test_server.admin().get("/metrics").send().text();
    let shown: BTreeSet<[String; 3]> = rows(&page("metrics.md")).into_iter().collect();
    assert_eq!(shown, metrics(&scraped), "left: docs/metrics.md, right: /metrics");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the script needs the programs of this machine")]
fn the_backup_script_keeps_one_checked_backup() {
    let customer = Customer::new();
    let folder = TempDir::new().unwrap();
    let page = page("deployment.md");
    let (_, script) = page.split_once("```sh consign-backup\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let script = script.replace("/var/lib/consign", &folder.path().display().to_string());
    let binary = Path::new(env!("CARGO_BIN_EXE_consign")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let store = format!("sqlite:{}", customer.test_server.store().display());
    for _ in 0..2 {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("PATH", &path).env("CONSIGN_STORE", &store);
        let run = shell.output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }
    let backups: Vec<_> = fs::read_dir(folder.path().join("backups")).unwrap().collect();
    assert_eq!(backups.len(), 1, "{backups:?}");
}

/// Name, kind and labels of each family on a page of Prometheus' text format.
fn metrics(scraped: &str) -> BTreeSet<[String; 3]> {
    let kinds = scraped.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families = kinds.map(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        let begin = format!("{name}{{");
        let sample = scraped.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default();
        let labels = sample.split(',').filter_map(|label| Some(label.split_once('=')?.0));
        [name.into(), kind.into(), labels.collect::<Vec<_>>().join(", ")]
    });
    families.collect()
}

/// The first three cells of the rows that begin with a code or a metric, without backticks.
fn rows(page: &str) -> Vec<[String; 3]> {
    let is_name = |cell: &str| cell.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.replace('`', ""));
    let cells = cells.filter_map(|row| {
        let mut cells = row.split(" | ").map(str::to_owned);
        Some([cells.next()?, cells.next()?, cells.next()?])
    });
    cells.filter(|[name, ..]| is_name(name)).collect()
}

fn page(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").canonicalize().unwrap()
}
