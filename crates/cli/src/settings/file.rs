//! Parses the settings file into values with their places.

use super::{
    key::{self, SECTIONS},
    mistake::{Mistake, SettingPlace},
    raw::{RawSettings, SourceValue},
};
use std::{io, path::Path};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};
use wire::nearest::hint;

#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) open: Open,
}

pub(crate) type Open = fn(&Path) -> io::Result<String>;

#[derive(Debug, Default)]
pub(super) struct FileContents {
    pub(super) given: Vec<SourceValue>,
    pub(super) types: Vec<SourceType>,
    pub(super) mistakes: Vec<Mistake>,
}

/// A table `[types."name"]`; keys of nested tables are written with a dot.
#[derive(Debug)]
pub(super) struct SourceType {
    pub(super) name: String,
    pub(super) place: SettingPlace,
    pub(super) entries: Vec<(String, RawSettings, SettingPlace)>,
}

/// Reads `file`. After a syntax error, nothing else is checked: the rest of the text would only
/// lead to wrong error messages.
pub(super) fn read(file: &SourceFile) -> FileContents {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    let mut reader = FileReader { file, said: FileContents::default() };
    if errors.is_empty() {
        reader.root(root.get_ref());
    }
    for error in errors {
        let what = format!("this is no TOML: {}", error.message().replace('\n', ", "));
        reader.wrong(error.span().map_or(0, |span| span.start), what);
    }
    reader.said
}

struct FileReader<'a> {
    file: &'a SourceFile,
    said: FileContents,
}

type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

impl FileReader<'_> {
    fn root(&mut self, root: &DeTable<'_>) {
        for (name, value) in root {
            let word: &str = name.get_ref();
            match value.get_ref().as_table() {
                Some(types) if word == "types" => self.types(types),
                Some(table) if SECTIONS.contains(&word) => {
                    table.iter().for_each(|entry| self.entry(word, entry));
                }
                None if word == "types" || SECTIONS.contains(&word) => {
                    let what = format!("`{word}` must be a table: [{word}]");
                    self.wrong(value.span().start, what);
                }
                Some(_) | None => self.entry("", (name, value)),
            }
        }
    }

    fn entry(&mut self, section: &str, (name, value): Entry<'_>) {
        let Some(key) = key::find(section, name.get_ref()) else {
            return self.unknown(section, name);
        };
        let (raw, place) = (RawSettings::of(value.get_ref()), self.at(value.span().start));
        self.said.given.push(SourceValue { key, raw, place });
    }

    fn unknown(&mut self, section: &str, name: &Spanned<DeString<'_>>) {
        let word: &str = name.get_ref();
        let tables = SECTIONS.iter().copied().chain(["types"]);
        let near = hint(word, key::names_in(section).chain(tables.filter(|_| section.is_empty())));
        let elsewhere = key::ALL.iter().find(|key| key.name == word);
        let near = match elsewhere {
            Some(key) if key.section.is_empty() => "; it belongs at the top of the file".into(),
            Some(key) => format!("; it belongs in [{}]", key.section),
            None => near,
        };
        let within = if section.is_empty() { "" } else { &format!(" in [{section}]") };
        self.wrong(name.span().start, format!("unknown key `{word}`{within}{near}"));
    }

    fn types(&mut self, types: &DeTable<'_>) {
        for (name, value) in types {
            let at = name.span().start;
            let Some(table) = value.get_ref().as_table() else {
                let word = name.get_ref();
                self.wrong(at, format!("`{word}` must be a table: [types.\"{word}\"]"));
                continue;
            };
            let mut entries = Vec::new();
            self.flatten("", table, &mut entries);
            let (name, place) = (name.get_ref().to_string(), self.at(at));
            self.said.types.push(SourceType { name, place, entries });
        }
    }

    /// Flattens a policy's nested tables. Deeper ones are unknown keys.
    fn flatten(
        &self,
        before: &str,
        table: &DeTable<'_>,
        into: &mut Vec<(String, RawSettings, SettingPlace)>,
    ) {
        for (name, value) in table {
            let path = format!("{before}{}", name.get_ref());
            let within = before.is_empty() && ["backoff", "handler"].contains(&path.as_str());
            match value.get_ref().as_table() {
                Some(inner) if within && !inner.is_empty() => {
                    self.flatten(&format!("{path}."), inner, into);
                }
                Some(_) | None => {
                    let place = self.at(name.span().start);
                    into.push((path, RawSettings::of(value.get_ref()), place));
                }
            }
        }
    }

    fn wrong(&mut self, byte: usize, what: String) {
        let mistake = Mistake::new(&self.at(byte), what);
        self.said.mistakes.push(mistake);
    }

    /// The line and column of a byte offset, as editors count.
    fn at(&self, byte: usize) -> SettingPlace {
        let before = self.file.text.get(..byte).unwrap_or(&self.file.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        SettingPlace::File { name: self.file.name.clone(), line, column }
    }
}
