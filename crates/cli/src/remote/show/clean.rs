//! Makes text from any source harmless for a terminal.

use serde::Serialize;

/// Removes characters that a terminal obeys, or that change the order in which text is shown. Line
/// breaks become spaces.
pub(crate) fn clean(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => Some(' '),
        letter if is_obeyed(letter) => None,
        letter => Some(letter),
    };
    text.chars().filter_map(shown).collect()
}

/// A value as JSON on one line, in which the same characters are escaped: programs read the same
/// value.
pub(crate) fn json(shape: &impl Serialize) -> String {
    let text = serde_json::to_string(shape).expect("the wire's shapes are texts and numbers");
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // Only a raw payload can have line breaks, and only between its values.
            '\n' | '\r' | '\t' => safe.push(' '),
            letter if is_obeyed(letter) => {
                safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => safe.push(letter),
        }
    }
    safe
}

/// The control characters C0 and C1, and those that change the direction of writing.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_removed() {
        let hostile = "a\x1b[31mb\x07c\u{9b}2Jd\re\nf\u{202e}g\x7f ü 漢";
        assert_eq!(clean(hostile), "a[31mbc2Jd e fg ü 漢");
    }

    #[test]
    fn json_means_the_same_and_is_one_line() {
        let hostile = serde_json::json!({ "m": "a\x1b[31m\u{9b}b\u{202e}\x7fü" });
        let text = json(&hostile);
        assert!(!text.chars().any(is_obeyed), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), hostile);
    }
}
