//! Prints the settings as a file that would produce them, with the source of each.

use super::{
    Settings,
    types::{DeclaredType, TypeValues},
    value::quoted,
};
use std::fmt::Write;

impl Settings {
    /// All settings in TOML. Users may show this output to others, so it must contain no secret.
    pub(crate) fn show(&self) -> String {
        let mut shown = String::new();
        let mut section = "";
        for resolved in &self.resolved {
            if resolved.key.section != section {
                section = resolved.key.section;
                shown += &format!("\n[{section}]\n");
            }
            // A default among settings that are off would switch them on where the output is read
            // as a file.
            let is_off = section == "jwt" && self.server.jwt.is_none();
            match &resolved.value {
                Some(value) => {
                    let prefix = if is_off { "# " } else { "" };
                    let line = format!("{prefix}{} = {}", resolved.key.name, value.toml());
                    add_line(&mut shown, &line, &resolved.origin.label());
                }
                None => add_line(&mut shown, &format!("# {} =", resolved.key.name), "not set"),
            }
        }
        self.types.iter().for_each(|declared| show_type(&mut shown, declared));
        shown
    }
}

fn show_type(shown: &mut String, declared: &DeclaredType) {
    let name = quoted(declared.job_type.as_str());
    add_line(shown, &format!("\n[types.{name}]"), &declared.origin.label());
    let mut values = TypeValues::of(&declared.policy, declared.schema_file.clone());
    for (key, value) in values.fields() {
        let key_origin = declared.key_origins.iter().find(|(name, _)| *name == key);
        match value.toml() {
            Some(value) => {
                let origin = key_origin.map_or("default".into(), |(_, origin)| origin.label());
                add_line(shown, &format!("{key} = {value}"), &origin);
            }
            None => add_line(shown, &format!("# {key} ="), "not set"),
        }
    }
}

/// Aligns comments as far as the values allow.
fn add_line(shown: &mut String, line: &str, comment: &str) {
    const COMMENTS_AT: usize = 44;
    let _ = writeln!(shown, "{line:COMMENTS_AT$} # {comment}");
}
