//! Values, from what stands in a filter for them.

use super::{
    error::{FilterFault, Form, snippet},
    tree::{Literal, Ticks},
};
use crate::time::{offset_ms, since_epoch};
use data_encoding::HEXLOWER_PERMISSIVE;
use uuid::{Uuid, fmt::Hyphenated};

type Read<T> = Result<T, FilterFault>;

/// The words that stand before a quote and say what is in it.
const FORMS: [(&str, Reader); 4] =
    [("datetime", time), ("guid", guid), ("X", binary), ("binary", binary)];

type Reader = fn(&str) -> Read<Literal>;

/// A value that says what it is: `datetime'…'`.
pub(super) fn formed(prefix: &str, body: &str) -> Read<Literal> {
    if let Some((_, read)) = FORMS.iter().find(|(word, _)| *word == prefix) {
        return read(body);
    }
    let other_case = FORMS.iter().find(|(word, _)| word.eq_ignore_ascii_case(prefix));
    Err(match other_case {
        // X is the one word in upper case.
        Some((word, _)) if *word != "X" => FilterFault::LowerCase(word),
        Some(_) | None => FilterFault::UnknownForm(snippet(prefix)),
    })
}

/// A number, by everything that stands together there.
pub(super) fn number(text: &str) -> Read<Literal> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if let Some(whole) = text.strip_suffix('L')
        && is_digits(&digits[..digits.len() - 1])
    {
        return whole.parse().map(Literal::Int64).map_err(|_| FilterFault::OutOfRange);
    }
    if is_digits(digits) {
        return whole(text);
    }
    if !is_double(digits) {
        return Err(FilterFault::Malformed(Form::Number));
    }
    let number: f64 = text.parse().map_err(|_| FilterFault::Malformed(Form::Number))?;
    if number.is_finite() { Ok(Literal::Double(number)) } else { Err(FilterFault::OutOfRange) }
}

/// A whole number without its L is as wide as it has to be: one of the clients never writes the L.
fn whole(text: &str) -> Read<Literal> {
    let number: i64 = text.parse().map_err(|_| FilterFault::OutOfRange)?;
    Ok(i32::try_from(number).map_or(Literal::Int64(number), Literal::Int32))
}

/// `digits "." digits [exp]` or `digits exp`; Rust alone would also take `inf` and `.5`.
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

fn time(body: &str) -> Read<Literal> {
    ticks(body).map(Literal::Time).ok_or(FilterFault::Malformed(Form::Time))
}

/// Without a zone it is UTC.
fn ticks(body: &str) -> Option<Ticks> {
    const NANOS_PER_TICK: i128 = 100;
    const TICKS_PER_MS: i64 = Ticks::PER_SECOND / 1_000;
    let clock_at = body.find(['T', 't'])?;
    let zone_at = body[clock_at..].find(['Z', 'z', '+', '-']).map(|at| clock_at + at);
    let (local, zone) = body.split_at(zone_at.unwrap_or(body.len()));
    let local = since_epoch(local)?.as_nanos().div_euclid(NANOS_PER_TICK);
    let offset = if zone.is_empty() { 0 } else { offset_ms(zone)? };
    let ticks = Ticks(i64::try_from(local).ok()? - offset * TICKS_PER_MS);
    (Ticks::MIN..=Ticks::MAX).contains(&ticks).then_some(ticks)
}

fn guid(body: &str) -> Read<Literal> {
    // The crate also reads shorter and longer forms than the one with hyphens.
    let uuid = Uuid::try_parse(body).ok().filter(|_| body.len() == Hyphenated::LENGTH);
    let uuid = uuid.ok_or(FilterFault::Malformed(Form::Guid))?;
    Ok(Literal::Guid(uuid.into_bytes()))
}

/// Pairs of hex digits.
fn binary(body: &str) -> Read<Literal> {
    let bytes = HEXLOWER_PERMISSIVE.decode(body.as_bytes());
    let bytes = bytes.map_err(|_| FilterFault::Malformed(Form::Binary))?;
    Ok(Literal::Binary(bytes.into()))
}
