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
        for chosen in &self.chosen {
            if chosen.key.section != section {
                section = chosen.key.section;
                shown += &format!("\n[{section}]\n");
            }
            // A default among settings that are off would switch them on where the output is read
            // as a file.
            let off = section == "jwt" && self.server.jwt.is_none();
            match &chosen.value {
                Some(value) => {
                    let mark = if off { "# " } else { "" };
                    let line = format!("{mark}{} = {}", chosen.key.name, value.toml());
                    add(&mut shown, &line, &chosen.place.origin());
                }
                None => add(&mut shown, &format!("# {} =", chosen.key.name), "not set"),
            }
        }
        self.types.iter().for_each(|declared| show_type(&mut shown, declared));
        shown
    }
}

fn show_type(shown: &mut String, declared: &DeclaredType) {
    let name = quoted(declared.job_type.as_str());
    add(shown, &format!("\n[types.{name}]"), &declared.place.origin());
    let mut values = TypeValues::of(&declared.policy, declared.schema_file.clone());
    for (key, value) in values.slots() {
        let said = declared.said.iter().find(|(said, _)| *said == key);
        match value.toml() {
            Some(value) => {
                let origin = said.map_or("default".into(), |(_, place)| place.origin());
                add(shown, &format!("{key} = {value}"), &origin);
            }
            None => add(shown, &format!("# {key} ="), "not set"),
        }
    }
}

/// Aligns comments as far as the values allow.
fn add(shown: &mut String, line: &str, comment: &str) {
    const COMMENTS_AT: usize = 44;
    let _ = writeln!(shown, "{line:COMMENTS_AT$} # {comment}");
}
