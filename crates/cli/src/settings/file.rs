//! Parses the settings file into values, each with its line and column.

use super::{
    RawSetting, SettingError, SettingOrigin, SourceValue,
    key::{self, SECTIONS},
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
    pub(super) values: Vec<SourceValue>,
    pub(super) types: Vec<SourceType>,
    pub(super) errors: Vec<SettingError>,
}

/// A table `[types."name"]`; keys of nested tables are written with a dot.
#[derive(Debug)]
pub(super) struct SourceType {
    pub(super) name: String,
    pub(super) origin: SettingOrigin,
    pub(super) entries: Vec<(String, RawSetting, SettingOrigin)>,
}

/// Reads `file`. After a syntax error, nothing else is checked: the rest of the text would only
/// lead to wrong error messages.
pub(super) fn read(file: &SourceFile) -> FileContents {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    let mut reader = FileReader { file, contents: FileContents::default() };
    if errors.is_empty() {
        reader.root(root.get_ref());
    }
    for error in errors {
        let detail = format!("this is no TOML: {}", error.message().replace('\n', ", "));
        reader.add_error(error.span().map_or(0, |span| span.start), detail);
    }
    reader.contents
}

struct FileReader<'a> {
    file: &'a SourceFile,
    contents: FileContents,
}

type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

impl FileReader<'_> {
    fn root(&mut self, root: &DeTable<'_>) {
        for (name, value) in root {
            let key_name: &str = name.get_ref();
            match value.get_ref().as_table() {
                Some(types) if key_name == "types" => self.types(types),
                Some(table) if SECTIONS.contains(&key_name) => {
                    table.iter().for_each(|entry| self.entry(key_name, entry));
                }
                None if key_name == "types" || SECTIONS.contains(&key_name) => {
                    let detail = format!("`{key_name}` must be a table: [{key_name}]");
                    self.add_error(value.span().start, detail);
                }
                Some(_) | None => self.entry("", (name, value)),
            }
        }
    }

    fn entry(&mut self, section: &str, (name, value): Entry<'_>) {
        let Some(key) = key::find(section, name.get_ref()) else {
            return self.unknown_key(section, name);
        };
        let (raw, origin) = (RawSetting::of(value.get_ref()), self.origin_at(value.span().start));
        self.contents.values.push(SourceValue { key, raw, origin });
    }

    fn unknown_key(&mut self, section: &str, name: &Spanned<DeString<'_>>) {
        let key_name: &str = name.get_ref();
        let tables = SECTIONS.iter().copied().chain(["types"]);
        let near =
            hint(key_name, key::names_in(section).chain(tables.filter(|_| section.is_empty())));
        let elsewhere = key::ALL.iter().find(|key| key.name == key_name);
        let near = match elsewhere {
            Some(key) if key.section.is_empty() => "; it belongs at the top of the file".into(),
            Some(key) => format!("; it belongs in [{}]", key.section),
            None => near,
        };
        let in_section = if section.is_empty() { "" } else { &format!(" in [{section}]") };
        self.add_error(name.span().start, format!("unknown key `{key_name}`{in_section}{near}"));
    }

    fn types(&mut self, types: &DeTable<'_>) {
        for (name, value) in types {
            let at = name.span().start;
            let Some(table) = value.get_ref().as_table() else {
                let key_name = name.get_ref();
                self.add_error(at, format!("`{key_name}` must be a table: [types.\"{key_name}\"]"));
                continue;
            };
            let mut entries = Vec::new();
            self.flatten("", table, &mut entries);
            let (name, origin) = (name.get_ref().to_string(), self.origin_at(at));
            self.contents.types.push(SourceType { name, origin, entries });
        }
    }

    /// Flattens a policy's nested tables. Deeper ones are unknown keys.
    fn flatten(
        &self,
        prefix: &str,
        table: &DeTable<'_>,
        into: &mut Vec<(String, RawSetting, SettingOrigin)>,
    ) {
        for (name, value) in table {
            let path = format!("{prefix}{}", name.get_ref());
            let is_nested = prefix.is_empty() && ["backoff", "handler"].contains(&path.as_str());
            match value.get_ref().as_table() {
                Some(inner) if is_nested && !inner.is_empty() => {
                    self.flatten(&format!("{path}."), inner, into);
                }
                Some(_) | None => {
                    let origin = self.origin_at(name.span().start);
                    into.push((path, RawSetting::of(value.get_ref()), origin));
                }
            }
        }
    }

    fn add_error(&mut self, byte: usize, detail: String) {
        let error = SettingError::new(&self.origin_at(byte), detail);
        self.contents.errors.push(error);
    }

    /// The line and column of a byte offset, as editors count.
    fn origin_at(&self, byte: usize) -> SettingOrigin {
        let before = self.file.text.get(..byte).unwrap_or(&self.file.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        SettingOrigin::File { name: self.file.name.clone(), line, column }
    }
}
