//! Renders sentences with `code` and [links](/errors).

use maud::{Markup, html};

/// Paragraphs.
pub(super) fn prose(text: &str) -> Markup {
    html! { @for paragraph in text.split("\n\n").filter(|part| !part.trim().is_empty()) { p { (prose_line(paragraph)) } } }
}

/// One paragraph, without its element.
pub(super) fn prose_line(text: &str) -> Markup {
    let mut rest = text;
    let mut parts = Vec::new();
    while let Some(at) = rest.find(['`', '[']) {
        let (before, after) = rest.split_at(at);
        let Some((part, left)) = code(after).or_else(|| link(after)) else { break };
        parts.push(html! { (before) (part) });
        rest = left;
    }
    html! { @for part in parts { (part) } (rest) }
}

fn code(text: &str) -> Option<(Markup, &str)> {
    let (code, rest) = text.strip_prefix('`')?.split_once('`')?;
    Some((html! { code { (code) } }, rest))
}

/// Only addresses of our own are links.
fn link(text: &str) -> Option<(Markup, &str)> {
    let (shown, rest) = text.strip_prefix('[')?.split_once("](/")?;
    let (address, rest) = rest.split_once(')')?;
    Some((html! { a href={ "/" (address) } { (prose_line(shown)) } }, rest))
}

/// Text to be copied.
pub(super) fn example(text: &str) -> Markup {
    html! { pre { code { (text) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_links_are_drawn_and_everything_is_escaped() {
        let drawn = prose_line("say `a<b` or [`X`](/errors/X), <b>not</b> [y](http://z) `open");
        let expected = "say <code>a&lt;b</code> or <a href=\"/errors/X\"><code>X</code></a>, \
                        &lt;b&gt;not&lt;/b&gt; [y](http://z) `open";
        assert_eq!(drawn.into_string(), expected);
    }
}
