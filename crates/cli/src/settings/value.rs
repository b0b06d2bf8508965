//! Kinds of settings: how they are parsed and printed.

use super::{Listen, RawSetting};
use crate::args::StoreAddress;
use outbound::{AddressList, Allow};
use server::AllowedOrigins;
use std::{fmt::Display, ops::RangeInclusive, path::PathBuf, time::Duration};

#[derive(Debug)]
pub(crate) enum Kind {
    Listen,
    Store,
    Path,
    Text,
    Word(&'static [&'static str]),
    Words(&'static [&'static str]),
    Switch,
    Whole(RangeInclusive<u64>),
    Bytes(RangeInclusive<u64>),
    /// In milliseconds.
    Span(RangeInclusive<u64>),
    /// The address of an issuer's public keys.
    Url,
    Hosts,
    Addresses,
    /// The origins of web pages.
    Origins,
    /// The address by which clients reach this server.
    PublicUrl,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingValue {
    Listen(Listen),
    Store(StoreAddress),
    Path(PathBuf),
    Text(String),
    Words(Vec<String>),
    Switch(bool),
    Whole(u64),
    Bytes(u64),
    Span(Duration),
    Url(String),
}

impl Kind {
    /// Parses a value. The error says what would be right.
    pub(super) fn read(&self, raw: &RawSetting) -> Result<SettingValue, String> {
        match self {
            Kind::Listen => Ok(SettingValue::Listen(text(raw, "127.0.0.1:8470")?.parse()?)),
            Kind::Store => Ok(SettingValue::Store(text(raw, "sqlite:consign.db")?.parse()?)),
            Kind::Path => Ok(SettingValue::Path(text(raw, "a/file.pem")?.into())),
            Kind::Text => Ok(SettingValue::Text(text(raw, "…")?.into())),
            Kind::Word(words) => Ok(SettingValue::Text(word(text(raw, words[0])?, words)?)),
            Kind::Words(words) => Ok(SettingValue::Words(words_of(raw, words)?)),
            Kind::Switch => Ok(SettingValue::Switch(switch(raw)?)),
            Kind::Whole(range) => Ok(SettingValue::Whole(whole(raw, range)?)),
            Kind::Bytes(range) => bytes(text(raw, "64KiB")?, range),
            Kind::Span(range) => span(text(raw, "30s")?, range),
            Kind::Url => url(text(raw, "https://…")?),
            Kind::Hosts => entries(raw, "hooks.internal", |hosts| Allow::parse(hosts)),
            Kind::Addresses => {
                entries(raw, "10.0.0.0/8", |addresses| AddressList::parse(addresses))
            }
            Kind::Origins => entries(raw, "https://app.example.org", AllowedOrigins::parse),
            Kind::PublicUrl => public_url(text(raw, "https://jobs.example.org")?),
        }
    }
}

fn text<'a>(raw: &'a RawSetting, example: &str) -> Result<&'a str, String> {
    let text = raw.text(example)?;
    if text.is_empty() { Err("must not be empty".into()) } else { Ok(text) }
}

fn word(text: &str, words: &[&str]) -> Result<String, String> {
    if words.contains(&text) {
        return Ok(text.into());
    }
    let hint = wire::nearest::hint(text, words.iter().copied());
    Err(format!("must be one of {}, but is `{text}`{hint}", words.join(", ")))
}

fn words_of(raw: &RawSetting, words: &[&str]) -> Result<Vec<String>, String> {
    let items = list(raw, words[0])?;
    if items.is_empty() {
        return Err(format!("must name at least one of {}", words.join(", ")));
    }
    items.into_iter().map(|item| word(item, words)).collect()
}

fn entries<T, E: Display>(
    raw: &RawSetting,
    example: &str,
    parse: fn(&[&str]) -> Result<T, E>,
) -> Result<SettingValue, String> {
    let items = list(raw, example)?;
    parse(&items).map_err(|error| format!("has an entry that is wrong: {error}"))?;
    Ok(SettingValue::Words(items.into_iter().map(str::to_owned).collect()))
}

fn list<'a>(raw: &'a RawSetting, example: &str) -> Result<Vec<&'a str>, String> {
    if let RawSetting::List(items) = raw {
        return items.iter().map(|item| text(item, example)).collect();
    }
    match raw.loose() {
        Some("") => Ok(Vec::new()),
        Some(text) => Ok(text.split(',').map(str::trim).collect()),
        None => Err(raw.instead_of(&format!("a list such as [\"{example}\"]"))),
    }
}

fn switch(raw: &RawSetting) -> Result<bool, String> {
    if let RawSetting::Switch(switch) = raw {
        return Ok(*switch);
    }
    let text = raw.loose().ok_or_else(|| raw.instead_of("true or false without quotes"))?;
    text.parse().map_err(|_| format!("must be true or false, but is `{text}`"))
}

fn whole(raw: &RawSetting, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let number = if let RawSetting::Whole(number) = raw {
        u64::try_from(*number).ok()
    } else {
        let text = raw.loose().ok_or_else(|| raw.instead_of("a whole number without quotes"))?;
        text.parse().ok()
    };
    within(number, range, "a whole number ", |number| number.to_string())
}

fn within(
    number: Option<u64>,
    range: &RangeInclusive<u64>,
    what: &str,
    show: fn(u64) -> String,
) -> Result<u64, String> {
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        format!("must be {what}from {} to {}", show(*range.start()), show(*range.end()))
    })
}

/// The largest first, so that a size is written as short as possible.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

fn bytes(text: &str, range: &RangeInclusive<u64>) -> Result<SettingValue, String> {
    let wrong = || "must be a whole number and a unit (B, KiB, MiB, GiB), such as 64KiB".to_owned();
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    within(number.checked_mul(size), range, "", show_bytes).map(SettingValue::Bytes)
}

fn show_bytes(bytes: u64) -> String {
    let fits = |(_, size): &(&str, u64)| bytes.is_multiple_of(*size);
    let (unit, size) = UNITS.into_iter().find(fits).expect("one byte divides every size");
    format!("{}{unit}", bytes / size)
}

fn span(text: &str, range: &RangeInclusive<u64>) -> Result<SettingValue, String> {
    let ms = wire::parse_span("", text).map_err(|problem| problem.detail)?;
    let shown = |ms| wire::format_span(Duration::from_millis(ms));
    let ms = within(u64::try_from(ms).ok(), range, "", shown)?;
    Ok(SettingValue::Span(Duration::from_millis(ms)))
}

/// The error does not repeat the value: users put passwords into addresses.
fn url(text: &str) -> Result<SettingValue, String> {
    let (scheme, rest) = text.split_once("://").ok_or("must begin with https://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not have a name or password in it".into());
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let is_local = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    match scheme {
        _ if host.is_empty() => Err("names no host".into()),
        "https" => Ok(SettingValue::Url(text.into())),
        "http" if is_local => Ok(SettingValue::Url(text.into())),
        _ => Err(
            "must begin with https://, because an attacker who changes what is read there could sign \
                  tokens (http:// only on this machine)"
                .into(),
        ),
    }
}

/// Clients get addresses that begin with it, so it is a plain beginning of one. A path is that
/// under which a proxy serves Consign.
fn public_url(text: &str) -> Result<SettingValue, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or("must begin with https:// (or http://)")?;
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() {
        return Err("names no host".into());
    }
    if host.contains('@') {
        return Err("must not have a name or password in it: clients are shown it".into());
    }
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
    if !text.bytes().all(is_plain) {
        return Err("must be an address without a query, such as https://jobs.example.org".into());
    }
    Ok(SettingValue::Url(text.trim_end_matches('/').into()))
}

impl SettingValue {
    pub(super) fn toml(&self) -> String {
        match self {
            SettingValue::Listen(listen) => quoted(&listen.to_string()),
            SettingValue::Store(store) => quoted(&store.to_string()),
            SettingValue::Path(path) => quoted(&path.display().to_string()),
            SettingValue::Text(text) => quoted(text),
            SettingValue::Words(words) => quoted_list(words),
            SettingValue::Switch(switch) => switch.to_string(),
            SettingValue::Whole(number) => number.to_string(),
            SettingValue::Bytes(bytes) => quoted(&show_bytes(*bytes)),
            SettingValue::Span(span) => quoted(&wire::format_span(*span)),
            // A query string may contain a token.
            SettingValue::Url(url) => match url.split_once('?') {
                Some((shown, _)) => quoted(&format!("{shown}?…")),
                None => quoted(url),
            },
        }
    }
}

pub(super) fn quoted_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_control() => quoted += &format!("\\u{:04X}", u32::from(letter)),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &Kind, raw: RawSetting, expected: Result<&str, &str>) {
        let read = kind.read(&raw).map(|value| value.toml());
        match (read, expected) {
            (Ok(shown), Ok(expected)) => assert_eq!(shown, expected, "{raw:?}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{raw:?}: {error}"),
            (read, _) => panic!("{raw:?} is read as {read:?}, not as {expected:?}"),
        }
    }

    fn loose(text: &str) -> RawSetting {
        RawSetting::Loose(text.into())
    }

    fn text(text: &str) -> RawSetting {
        RawSetting::Text(text.into())
    }

    #[test]
    fn sizes_have_units_and_limits() {
        let kind = Kind::Bytes(1024..=1 << 20);
        check(&kind, text("64KiB"), Ok("\"64KiB\""));
        check(&kind, loose("65536B"), Ok("\"64KiB\""));
        check(&kind, text("1025B"), Ok("\"1025B\""));
        check(&kind, text("64kb"), Err("B, KiB, MiB, GiB"));
        check(&kind, text("64"), Err("and a unit"));
        check(&kind, text("2MiB"), Err("must be from 1KiB to 1MiB"));
        check(&kind, text(&format!("{}GiB", u64::MAX)), Err("must be from"));
        check(
            &kind,
            RawSetting::Whole(65536),
            Err("must be a text such as \"64KiB\", but is a number"),
        );
    }

    #[test]
    fn spans_numbers_and_switches_are_what_they_are() {
        let span = Kind::Span(1_000..=60_000);
        check(&span, text("30s"), Ok("\"30s\""));
        check(&span, text("90s"), Err("must be from 1s to 1m"));
        check(&span, text("30"), Err("such as 30s"));
        let whole = Kind::Whole(1..=10);
        check(&whole, RawSetting::Whole(10), Ok("10"));
        check(&whole, loose("7"), Ok("7"));
        check(&whole, RawSetting::Whole(-1), Err("from 1 to 10"));
        check(&whole, text("7"), Err("without quotes"));
        check(&whole, RawSetting::Number(1.5), Err("with decimals"));
        check(&Kind::Switch, RawSetting::Switch(true), Ok("true"));
        check(&Kind::Switch, loose("false"), Ok("false"));
        check(&Kind::Switch, loose("yes"), Err("true or false"));
        check(&Kind::Switch, text("true"), Err("without quotes"));
    }

    #[test]
    fn unknown_words_are_refused_with_the_nearest_word() {
        let one = Kind::Word(&["auto", "json", "text"]);
        check(&one, text("json"), Ok("\"json\""));
        check(&one, text("jsno"), Err("did you mean `json`?"));
        check(&one, text(""), Err("must not be empty"));
        let some = Kind::Words(&["RS256", "ES256"]);
        check(&some, RawSetting::List(vec![text("RS256")]), Ok("[\"RS256\"]"));
        check(&some, loose("RS256, ES256"), Ok("[\"RS256\", \"ES256\"]"));
        check(&some, RawSetting::List(vec![]), Err("at least one"));
        check(&some, RawSetting::List(vec![text("HS256")]), Err("must be one of RS256, ES256"));
        check(&some, text("RS256"), Err("a list such as"));
    }

    #[test]
    fn hosts_are_addresses_blocks_and_names() {
        let good = RawSetting::List(vec![text("10.0.0.0/8"), text("hooks.internal:9000")]);
        check(&Kind::Hosts, good, Ok("[\"10.0.0.0/8\", \"hooks.internal:9000\"]"));
        check(&Kind::Hosts, RawSetting::List(vec![]), Ok("[]"));
        check(&Kind::Hosts, loose("::1, a.b"), Ok("[\"::1\", \"a.b\"]"));
        check(&Kind::Hosts, loose(""), Ok("[]"));
        check(&Kind::Hosts, loose("http://a.b"), Err("`http://a.b` is no host"));
        check(&Kind::Hosts, text("a.b"), Err("a list such as"));
    }

    #[test]
    fn proxies_are_addresses_and_blocks() {
        let good = RawSetting::List(vec![text("10.0.0.0/8"), text("::1")]);
        check(&Kind::Addresses, good, Ok("[\"10.0.0.0/8\", \"::1\"]"));
        check(&Kind::Addresses, loose(""), Ok("[]"));
        check(&Kind::Addresses, loose("proxy.internal"), Err("`proxy.internal` is no address"));
        check(&Kind::Addresses, text("10.0.0.1"), Err("a list such as [\"10.0.0.0/8\"]"));
    }

    #[test]
    fn addresses_of_keys_are_safe_and_show_no_secret() {
        check(
            &Kind::Url,
            text("https://id.example/jwks?k=s3"),
            Ok("\"https://id.example/jwks?…\""),
        );
        check(&Kind::Url, text("http://localhost:9/k"), Ok("\"http://localhost:9/k\""));
        check(&Kind::Url, text("http://[::1]:9/k"), Ok("\"http://[::1]:9/k\""));
        for wrong in
            ["http://id.example/k", "ftp://x/y", "id.example", "https://", "http://a@localhost/"]
        {
            let error = Kind::Url.read(&text(wrong)).unwrap_err();
            assert!(error.starts_with("must") || error.starts_with("names"), "{wrong}: {error}");
        }
        let error = Kind::Url.read(&text("https://u:hunter2@x/")).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn origins_of_pages_are_exact() {
        let good = RawSetting::List(vec![text("https://app.example.org")]);
        check(&Kind::Origins, good, Ok("[\"https://app.example.org\"]"));
        check(&Kind::Origins, loose("*"), Ok("[\"*\"]"));
        check(&Kind::Origins, loose("*, https://a.example"), Err("must stand alone"));
        check(&Kind::Origins, loose("https://app.example.org/"), Err("no path or slash"));
        check(&Kind::Origins, loose("null"), Err("sandboxed frames"));
        check(&Kind::Origins, text("https://a.example"), Err("a list such as"));
    }

    #[test]
    fn the_public_url_is_the_beginning_of_addresses() {
        check(
            &Kind::PublicUrl,
            text("https://jobs.example.org"),
            Ok("\"https://jobs.example.org\""),
        );
        check(&Kind::PublicUrl, text("https://a.example/jobs/"), Ok("\"https://a.example/jobs\""));
        for wrong in
            ["jobs.example.org", "https://", "https://u:p@x", "https://x/?a=b", "https://x y"]
        {
            assert!(Kind::PublicUrl.read(&text(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quoted_text_escapes_toml_characters() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000A\"");
    }
}
