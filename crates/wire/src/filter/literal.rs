//! Parses the values in a filter.

use super::{error::snippet, tree::Literal};
use crate::time::{offset_ms, since_epoch};
use data_encoding::HEXLOWER_PERMISSIVE;
use std::ops::Range;
use uuid::{Uuid, fmt::Hyphenated};

/// A value, or its error message.
type Read = Result<Literal, String>;
/// A prefix before a quote, the function that reads the quoted value, and its form.
type Form = (&'static str, fn(&str) -> Option<Literal>, &'static str);

const BINARY: &str = "a binary value that is not written in pairs of hex digits, like X'00ff'";
const FORMS: [Form; 4] = [
    ("datetime", time, "a time that is not written like datetime'2026-11-15T08:00:00Z'"),
    ("guid", guid, "a guid that is not written like guid'0190163d-8694-739b-aea5-966c26f8ad91'"),
    ("X", binary, BINARY),
    ("binary", binary, BINARY),
];

/// A value with a prefix: `datetime'…'`.
pub(super) fn prefixed(prefix: &str, body: &str) -> Read {
    if let Some((_, read, form)) = FORMS.iter().find(|(word, ..)| *word == prefix) {
        return read(body).ok_or_else(|| format!("has {form}"));
    }
    let other_case = FORMS.iter().find(|(word, ..)| word.eq_ignore_ascii_case(prefix));
    Err(match other_case {
        // X is the one keyword in upper case.
        Some((word, ..)) if *word != "X" => lower_case(word),
        Some(_) | None => format!(
            "has a value of the unknown kind '{}'; known are datetime'…', guid'…', binary'…' \
             and X'…'",
            snippet(prefix)
        ),
    })
}

/// The message for a keyword in the wrong case.
pub(super) fn lower_case(word: &str) -> String {
    format!("must have '{word}' in lower case")
}

/// A number, out of all characters that stand together.
pub(super) fn number(text: &str) -> Read {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if let Some(whole) = text.strip_suffix('L')
        && is_digits(&digits[..digits.len() - 1])
    {
        return whole.parse().map(Literal::Int64).map_err(|_| out_of_range());
    }
    if is_digits(digits) {
        return whole(text);
    }
    if !is_double(digits) {
        return Err("has a number that is not written like 42, 42L, 4.2 or 4.2e1".into());
    }
    let number: f64 = text.parse().expect("is_double checked the digits");
    if number.is_finite() { Ok(Literal::Double(number)) } else { Err(out_of_range()) }
}

fn out_of_range() -> String {
    "has a number that 64 bits cannot hold".into()
}

/// An integer without its L is as wide as its value needs, because one client library never writes
/// the L.
fn whole(text: &str) -> Read {
    let number: i64 = text.parse().map_err(|_| out_of_range())?;
    Ok(i32::try_from(number).map_or(Literal::Int64(number), Literal::Int32))
}

/// `digits "." digits [exp]` or `digits exp`; Rust alone would also accept `inf` and `.5`.
fn is_double(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let exponent_fits = exponent
        .is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => is_digits(mantissa) && exponent.is_some(),
    };
    mantissa_fits && exponent_fits
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Without a zone it is UTC. Fractions of a millisecond are dropped, as in every time.
fn time(body: &str) -> Option<Literal> {
    const NANOS_PER_MS: i128 = 1_000_000;
    const YEARS_1_TO_9999: Range<i64> = -62_135_596_800_000..253_402_300_800_000;
    let clock_at = body.find(['T', 't'])?;
    let zone_at = body[clock_at..].find(['Z', 'z', '+', '-']).map(|at| clock_at + at);
    let (local, zone) = body.split_at(zone_at.unwrap_or(body.len()));
    let local_ms = since_epoch(local)?.as_nanos().div_euclid(NANOS_PER_MS);
    let offset_ms = if zone.is_empty() { 0 } else { offset_ms(zone)? };
    let unix_ms = i64::try_from(local_ms).ok()? - offset_ms;
    YEARS_1_TO_9999.contains(&unix_ms).then_some(Literal::Time(unix_ms))
}

fn guid(body: &str) -> Option<Literal> {
    // The crate also reads forms other than the hyphenated one.
    let uuid = Uuid::try_parse(body).ok().filter(|_| body.len() == Hyphenated::LENGTH);
    uuid.map(|uuid| Literal::Guid(uuid.into_bytes()))
}

/// Pairs of hex digits.
fn binary(body: &str) -> Option<Literal> {
    let bytes = HEXLOWER_PERMISSIVE.decode(body.as_bytes()).ok()?;
    Some(Literal::Binary(bytes.into()))
}
