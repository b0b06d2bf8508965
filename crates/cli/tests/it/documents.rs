//! What the pages name exists: links, files, commands, routes, settings, types, and counts.

use super::consign;
use server::ROUTES;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Words in backticks that look like a type of ours and are none.
const FOREIGN_TYPES: &[&str] = &["TasksMax", "X"];

struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }

    /// Whether a block of the page is a file of this name, which its reader saves.
    fn saves(&self, name: &str) -> bool {
        let end = format!(" {name}");
        self.text.lines().any(|line| line.starts_with("```") && line.ends_with(&end))
    }

    /// What stands between backticks, outside of code blocks.
    fn quoted(&self) -> Vec<&str> {
        let mut in_block = false;
        let prose = self.text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            in_block ^= fence;
            !in_block && !fence
        });
        prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
    }
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages().iter().chain(&decisions()) {
        for target in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = page.path.parent().unwrap().join(file);
            let path = if file.is_empty() { page.path.clone() } else { path };
            let exists = path.exists() && (anchor.is_empty() || anchors(&path).contains(anchor));
            if !exists {
                broken.push(format!("{}: {target}", page.name()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn files_that_are_named_exist() {
    let tracked = tracked();
    let is_source = |word: &str| {
        let endings = [".rs", ".sql", ".py", ".ts", ".cs", ".svg", ".md"];
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        word.chars().all(plain) && endings.iter().any(|end| word.ends_with(end))
    };
    check("files", |page, missing| {
        let words = page.quoted();
        for word in words.into_iter().filter(|word| is_source(word)) {
            let word = word.trim_start_matches("./");
            let end = format!("/{word}");
            let is_tracked = tracked.iter().any(|path| path == word || path.ends_with(&end));
            if !is_tracked && !page.saves(word) {
                missing.push(word.to_owned());
            }
        }
    });
}

#[test]
fn commands_that_are_named_exist() {
    let folder = TempDir::new().unwrap();
    let named = |help: &str| -> BTreeSet<String> {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        help.lines().filter(|line| line.starts_with("  ")).filter_map(first).collect()
    };
    let help = |words: &[&str]| consign(folder.path(), &[words, &["--help"]].concat()).out;
    let top = named(&help(&[]));
    let xtask = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    let is_name = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let exists = |words: &[&str]| match *words {
        ["cargo", "xtask", command, ..] => xtask.contains(&format!("[\"{command}\"")),
        ["consign", command, ref rest @ ..] if is_name(command) => {
            let page = help(&[command]);
            let below = page.split_once("Commands:").map(|(_, below)| named(below));
            let sub = rest.first().filter(|word| is_name(word));
            top.contains(command) && below.zip(sub).is_none_or(|(below, sub)| below.contains(*sub))
        }
        _ => true,
    };
    check("commands", |page, missing| {
        let typed = page.text.lines().filter_map(|line| line.strip_prefix("$ "));
        for command in typed.chain(page.quoted()) {
            let words: Vec<&str> = command.split_whitespace().collect();
            if !exists(&words) {
                missing.push(command.to_owned());
            }
        }
    });
}

#[test]
fn routes_that_are_named_exist() {
    let matches = |route: &str, path: &str| {
        let (route, path): (Vec<&str>, Vec<&str>) =
            (route.split('/').collect(), path.split('/').collect());
        let same = |(of_route, of_path): (&&str, &&str)| {
            of_route == of_path || of_route.starts_with('{') || of_path.starts_with('{')
        };
        route.len() == path.len() && route.iter().zip(&path).all(same)
    };
    check("routes", |page, missing| {
        for quoted in page.quoted() {
            let Some((method, path)) = quoted.split_once(' ') else { continue };
            if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method)
                || !path.starts_with('/')
            {
                continue;
            }
            let path = path.split(['?', ' ']).next().unwrap();
            if !ROUTES.iter().any(|route| route.method == method && matches(route.path, path)) {
                missing.push(quoted.to_owned());
            }
        }
    });
}

#[test]
fn variables_that_are_named_are_read() {
    let sources = sources();
    // Another test compares this page with the settings.
    let settings = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    check("variables", |page, missing| {
        let words = page.text.split(|c: char| !is_part(c));
        for word in words.filter(|word| word.starts_with("CONSIGN_") && word.len() > 8) {
            if !settings.contains(&format!("`{word}`")) && !sources.contains(word) {
                missing.push(word.to_owned());
            }
        }
    });
}

#[test]
fn types_that_are_named_exist() {
    let sources = sources();
    let words: BTreeSet<&str> =
        sources.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let is_type = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().skip(1).any(|c| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_alphanumeric())
            && !FOREIGN_TYPES.contains(&word)
    };
    check("types", |page, missing| {
        for quoted in page.quoted() {
            let path = quoted.split(['(', '<', ' ', '{', '/', '.', '!', ':', '-']).next().unwrap();
            if is_type(path) && !words.contains(path) {
                missing.push(quoted.to_owned());
            }
        }
    });
}

#[test]
fn counts_are_true() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let suite = fs::read_to_string(root().join("crates/store/src/conformance/mod.rs")).unwrap();
    let count = |name: &str| {
        let (_, list) = suite.split_once(&format!("macro_rules! {name} {{")).unwrap();
        let (_, list) = list.split_once('{').unwrap();
        let (_, list) = list.split_once("! {").unwrap();
        let (list, _) = list.split_once('}').unwrap();
        let tests = list.split([',', ';']).map(str::trim);
        tests.filter(|test| !test.is_empty() && !test.starts_with('$')).count()
    };
    let (all, shared) = (count("conformance"), count("conformance_shared"));
    let expected = format!(
        "{all} tests, races included, in memory, on files and on PostgreSQL; {shared} more"
    );
    assert!(page.contains(&expected), "ARCHITECTURE.md does not say: {expected}");
}

/// Fails with all that `find` misses, page by page.
#[track_caller]
fn check(what: &str, find: impl Fn(&Page, &mut Vec<String>)) {
    let mut all = Vec::new();
    for page in pages() {
        let mut missing = Vec::new();
        find(&page, &mut missing);
        all.extend(missing.into_iter().map(|missing| format!("{}: {missing}", page.name())));
    }
    assert!(all.is_empty(), "{what} that do not exist:\n{}", all.join("\n"));
}

/// The pages that say how things are. Decisions say how they were, and the comparison is full of
/// the names of others.
fn pages() -> Vec<Page> {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md"];
    let top = top.map(|name| root().join(name));
    let pages = markdown(&root().join("docs"));
    let own = pages.into_iter().filter(|path| !path.ends_with("comparison.md"));
    top.into_iter().chain(own).map(page).collect()
}

fn decisions() -> Vec<Page> {
    markdown(&root().join("docs/decisions")).into_iter().map(page).collect()
}

fn page(path: PathBuf) -> Page {
    Page { text: fs::read_to_string(&path).unwrap(), path }
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// The anchors of a page's headings, as they are made of their texts.
fn anchors(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let slug = |heading: &str| -> String {
        let is_kept = |c: char| c.is_alphanumeric() || " -_".contains(c);
        heading.chars().filter(|c| is_kept(*c)).collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(slug).collect()
}

fn tracked() -> Vec<String> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The code of all crates and examples, without its comments.
fn sources() -> String {
    let endings = [".rs", ".toml", ".py", ".ts"];
    let is_source = |path: &&String| {
        endings.iter().any(|end| path.ends_with(end)) && !path.contains("/tests/it/documents")
    };
    let mut all = String::new();
    for path in tracked().iter().filter(is_source) {
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            all.push_str(line);
            all.push('\n');
        }
    }
    all
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
