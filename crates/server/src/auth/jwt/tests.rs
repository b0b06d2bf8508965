//! Valid tokens, and every way we know in which a token can be invalid.

use super::*;
use crate::settings::JwksSource;
use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
    },
};
use engine::{Right, Scope, Tenant};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    path::Path,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const ISSUER: &str = "https://id.example/";
const AUDIENCE: &str = "consign";
/// In seconds.
const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(seconds * 1_000)
}

enum Secret {
    Rsa(RsaKeyPair),
    Ec(&'static str, EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A key of the issuer, or of an attacker.
struct Signing {
    id: &'static str,
    secret: Secret,
}

impl Signing {
    fn rsa(id: &'static str) -> Self {
        Signing { id, secret: Secret::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()) }
    }

    fn p256(id: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Signing { id, secret: Secret::Ec("P-256", pair) }
    }

    fn p384(id: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
        Signing { id, secret: Secret::Ec("P-384", pair) }
    }

    fn ed(id: &'static str) -> Self {
        Signing { id, secret: Secret::Ed(Ed25519KeyPair::generate().unwrap()) }
    }

    fn algorithm(&self) -> &'static str {
        match &self.secret {
            Secret::Rsa(_) => "RS256",
            Secret::Ec("P-256", _) => "ES256",
            Secret::Ec(..) => "ES384",
            Secret::Ed(_) => "EdDSA",
        }
    }

    fn header(&self) -> Value {
        json!({"typ": "JWT", "alg": self.algorithm(), "kid": self.id})
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.secret {
            Secret::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Secret::Ec(_, pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Secret::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    fn jwk(&self) -> Value {
        let mut jwk = match &self.secret {
            Secret::Rsa(pair) => {
                let public = pair.public_key();
                let n = public.modulus().big_endian_without_leading_zero();
                let e = public.exponent().big_endian_without_leading_zero();
                json!({"kty": "RSA", "n": base64(n), "e": base64(e)})
            }
            Secret::Ec(curve, pair) => {
                // 4, then both coordinates.
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "crv": curve, "x": base64(x), "y": base64(y)})
            }
            Secret::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key().as_ref())})
            }
        };
        jwk["kid"] = self.id.into();
        jwk
    }

    fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        signed(header, claims, |message| self.sign(message))
    }
}

fn signed(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let encode = |value: &Value| base64(value.to_string().as_bytes());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = base64(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// Base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0, |n, i| n << 8 | u32::from(*chunk.get(i).unwrap_or(&0)));
        for position in 0..=chunk.len() {
            text.push(DIGITS[(number >> (18 - 6 * position) & 63) as usize].into());
        }
    }
    text
}

/// Made once: RSA keys take a while.
static KEYS: LazyLock<[Signing; 4]> = LazyLock::new(|| {
    [Signing::rsa("rsa"), Signing::p256("p256"), Signing::p384("p384"), Signing::ed("ed")]
});

fn rsa() -> &'static Signing {
    &KEYS[0]
}

fn ec() -> &'static Signing {
    &KEYS[1]
}

fn jwks<'a>(keys: impl IntoIterator<Item = &'a Signing>) -> Value {
    json!({"keys": keys.into_iter().map(Signing::jwk).collect::<Vec<_>>()})
}

fn settings(jwks: JwksSource) -> JwtSettings {
    let algorithms = ["RS256", "ES256", "ES384", "EdDSA"].map(String::from).to_vec();
    JwtSettings { algorithms, ..JwtSettings::new(ISSUER.into(), AUDIENCE.into(), jwks) }
}

/// A verifier with the keys of `set`. The folder must outlive it, because it holds the file.
async fn open_file(set: &Value) -> (Jwt, TempDir) {
    open_with(set, |_| {}).await.unwrap()
}

async fn open_with(
    set: &Value,
    change: impl FnOnce(&mut JwtSettings),
) -> Result<(Jwt, TempDir), JwtSetupError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    write(&file, set);
    let mut settings = settings(JwksSource::File(file));
    change(&mut settings);
    Ok((Jwt::open(settings, at(NOW)).await?, folder))
}

fn write(file: &Path, set: &Value) {
    std::fs::write(file, set.to_string()).unwrap();
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 300,
        "tenant": "acme", "scope": "openid jobs:read jobs:enqueue",
    })
}

/// The usual claims, with changes; null removes a claim.
fn claims_but(changes: Value) -> Value {
    let mut all = claims();
    for (name, value) in changes.as_object().unwrap() {
        all[name] = value.clone();
    }
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    all
}

#[tokio::test]
async fn a_token_signed_with_any_supported_key_type_is_accepted() {
    let (jwt, _folder) = open_file(&jwks(&*KEYS)).await;
    for key in &*KEYS {
        let principal = jwt.verify(&key.token(&claims()), at(NOW)).await.unwrap();
        assert_eq!(&*principal.who, "jwt:alice");
        assert_eq!(principal.grant.scope, Scope::One(Tenant::parse("acme").unwrap()));
        let rights: Vec<_> = principal.grant.rights.iter().collect();
        assert_eq!(rights, [Right::JobsEnqueue, Right::JobsRead]);
        assert!(principal.grant.types.is_empty() && principal.grant.subjects.is_empty());
    }
}

#[tokio::test]
async fn forgeries_are_refused() {
    use JwtRefused::*;
    let (jwt, _folder) = open_file(&jwks(&*KEYS)).await;
    let good = rsa().token(&claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let header_with = |name: &str, value: Value| {
        let mut header = rsa().header();
        header[name] = value;
        header
    };
    let signed_with =
        |name: &str, value: Value| rsa().token_with(&header_with(name, value), &claims());
    let public = rsa().jwk();
    let hs256 = |secret: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let header = json!({"typ": "JWT", "alg": "HS256", "kid": "rsa"});
        signed(&header, &claims(), |message| hmac::sign(&key, message).as_ref().to_vec())
    };
    let admin = claims_but(json!({"scope": "admin"})).to_string();
    let thief = Signing::rsa("rsa");
    for (what, token, reason) in [
        ("nothing", String::new(), Malformed),
        ("dots", "..".into(), Malformed),
        ("no signature", message.into(), Malformed),
        ("empty signature", format!("{message}."), Signature),
        ("header only", header.into(), Malformed),
        ("four parts", format!("{good}.{signature}"), Malformed),
        ("padded", format!("{good}="), Malformed),
        ("a space", format!(" {good}"), Malformed),
        ("huge", format!("{message}.{}", "A".repeat(TOKEN_BYTES_MAX)), TooLong),
        ("none", signed(&header_with("alg", "none".into()), &claims(), |_| vec![]), Malformed),
        ("NONE", signed(&header_with("alg", "NONE".into()), &claims(), |_| vec![]), Malformed),
        ("no algorithm", signed_with("alg", Value::Null), Malformed),
        ("the modulus as secret", hs256(public["n"].as_str().unwrap().as_bytes()), Algorithm),
        ("the public key as secret", hs256(public.to_string().as_bytes()), Algorithm),
        ("no secret", hs256(b""), Algorithm),
        ("an algorithm that is not allowed", signed_with("alg", "RS512".into()), Algorithm),
        ("an algorithm of another key", signed_with("alg", "ES256".into()), Algorithm),
        ("another kind of signature", signed_with("alg", "PS256".into()), Algorithm),
        ("another key", signed_with("kid", "p256".into()), Algorithm),
        ("an unknown key", signed_with("kid", "new".into()), UnknownKey),
        ("a path as key", signed_with("kid", "../../dev/null".into()), UnknownKey),
        ("no key", signed_with("kid", Value::Null), KeyIdMissing),
        ("a stolen name", thief.token(&claims()), Signature),
        ("jku", thief.token_with(&header_with("jku", ISSUER.into()), &claims()), BringsKey),
        ("good jku", signed_with("jku", ISSUER.into()), BringsKey),
        ("x5u", signed_with("x5u", ISSUER.into()), BringsKey),
        ("jwk", thief.token_with(&header_with("jwk", thief.jwk()), &claims()), BringsKey),
        ("crit", signed_with("crit", json!(["exp"])), Critical),
        ("b64", signed_with("crit", json!([])), Critical),
        ("typ", signed_with("typ", "logout+jwt".into()), Type),
        ("tampered", format!("{header}.{}.{signature}", base64(admin.as_bytes())), Signature),
        ("swapped", format!("{payload}.{header}.{signature}"), Malformed),
        ("no claims", rsa().token(&json!([])), Malformed),
    ] {
        assert_eq!(jwt.verify(&token, at(NOW)).await, Err(reason), "{what}");
    }
    assert!(jwt.verify(&good, at(NOW)).await.is_ok());
}

#[tokio::test]
async fn every_byte_of_a_token_counts() {
    let (jwt, _folder) = open_file(&jwks([ec()])).await;
    let good = ec().token(&claims());
    // The last digit of each part has unused bits, which must be 0: other values are other
    // spellings.
    for position in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(bytes).unwrap();
        assert!(jwt.verify(&forged, at(NOW)).await.is_err(), "{forged} at {position}");
        assert!(jwt.verify(&good[..position], at(NOW)).await.is_err(), "cut at {position}");
    }
}

#[tokio::test]
async fn a_key_verifies_only_its_declared_algorithm() {
    let sign_pss = |message: &[u8]| {
        let Secret::Rsa(pair) = &rsa().secret else { panic!("an RSA key") };
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PSS_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
        signature
    };
    let pss = signed(&json!({"alg": "PS256", "kid": "rsa"}), &claims(), sign_pss);
    let both =
        |settings: &mut JwtSettings| settings.algorithms = vec!["RS256".into(), "PS256".into()];
    let (jwt, _folder) = open_with(&jwks([rsa()]), both).await.unwrap();
    assert!(jwt.verify(&pss, at(NOW)).await.is_ok());
    assert!(jwt.verify(&rsa().token(&claims()), at(NOW)).await.is_ok());
    let mut set = jwks([rsa()]);
    set["keys"][0]["alg"] = "RS256".into();
    let (jwt, _folder) = open_with(&set, both).await.unwrap();
    assert_eq!(jwt.verify(&pss, at(NOW)).await, Err(JwtRefused::Algorithm));
    assert!(jwt.verify(&rsa().token(&claims()), at(NOW)).await.is_ok());
}

#[tokio::test]
async fn only_access_token_types_are_accepted() {
    let (jwt, _folder) = open_file(&jwks([ec()])).await;
    for (typ, good) in [
        (json!("JWT"), true),
        (json!("jwt"), true),
        (json!("at+jwt"), true),
        (json!("application/at+JWT"), true),
        (Value::Null, true),
        (json!("secevent+jwt"), false),
        (json!(""), false),
        (json!(1), false),
    ] {
        let header = json!({"typ": typ, "alg": "ES256", "kid": "p256"});
        let result = jwt.verify(&ec().token_with(&header, &claims()), at(NOW)).await;
        assert_eq!(result.is_ok(), good, "{typ}");
    }
    let without_type = ec().token_with(&json!({"alg": "ES256", "kid": "p256"}), &claims());
    assert!(jwt.verify(&without_type, at(NOW)).await.is_ok());
}

#[tokio::test]
async fn one_key_alone_needs_no_name() {
    let token = ec().token_with(&json!({"alg": "ES256"}), &claims());
    let (jwt, _folder) = open_file(&jwks([ec()])).await;
    assert!(jwt.verify(&token, at(NOW)).await.is_ok());
    let (jwt, _folder) = open_file(&jwks([ec(), rsa()])).await;
    assert_eq!(jwt.verify(&token, at(NOW)).await, Err(JwtRefused::KeyIdMissing));
}

/// The principal of the usual token after these changes, or why it is refused.
async fn means(changes: Value) -> Result<Principal, JwtRefused> {
    means_with(changes, |_| {}).await
}

async fn means_with(
    changes: Value,
    change: impl FnOnce(&mut JwtSettings),
) -> Result<Principal, JwtRefused> {
    let (jwt, _folder) = open_with(&jwks([ec()]), change).await.unwrap();
    jwt.verify(&ec().token(&claims_but(changes)), at(NOW)).await
}

fn wrong_claim(name: &str, result: Result<Principal, JwtRefused>) {
    let JwtRefused::Claim(named, _) = result.unwrap_err() else { panic!("not a claim") };
    assert_eq!(named, name);
}

#[tokio::test]
async fn issuer_and_audience_must_be_these() {
    for iss in [json!(null), json!("https://id.example"), json!([ISSUER]), json!({}), json!("")] {
        assert_eq!(means(json!({"iss": iss})).await, Err(JwtRefused::Issuer), "{iss}");
    }
    for aud in [json!(null), json!("other"), json!([]), json!(["other"]), json!([[AUDIENCE]])] {
        assert_eq!(means(json!({"aud": aud})).await, Err(JwtRefused::Audience), "{aud}");
    }
    assert!(means(json!({"aud": ["other", AUDIENCE]})).await.is_ok());
}

#[tokio::test]
async fn time_is_the_one_that_is_passed_in() {
    for exp in [json!(NOW - 30), json!(0), json!(-1), json!(NOW as f64 - 30.5)] {
        assert_eq!(means(json!({"exp": exp})).await, Err(JwtRefused::Expired), "{exp}");
    }
    for exp in [json!(NOW - 29), json!(NOW as f64 - 29.5), json!(9e15)] {
        assert!(means(json!({"exp": exp})).await.is_ok(), "{exp}");
    }
    for exp in [json!(null), json!("1900000000")] {
        wrong_claim("exp", means(json!({"exp": exp})).await);
    }
    for exp in [json!([NOW + 300]), json!(true), json!({"at": NOW + 300})] {
        assert!(means(json!({"exp": exp})).await.is_err(), "{exp}");
    }
    assert_eq!(means(json!({"nbf": NOW + 31})).await, Err(JwtRefused::NotYetValid));
    assert!(means(json!({"nbf": NOW + 30})).await.is_ok());
    wrong_claim("nbf", means(json!({"nbf": "0"})).await);
}

#[tokio::test]
async fn the_tenant_is_in_the_token_or_in_the_settings() {
    wrong_claim("tenant", means(json!({"tenant": null})).await);
    for tenant in [json!("*"), json!("Acme"), json!(""), json!(7), json!(["acme"]), json!("a/b")] {
        wrong_claim("tenant", means(json!({"tenant": tenant})).await);
    }
    let all = |settings: &mut JwtSettings| settings.allow_all_tenants = true;
    let principal = means_with(json!({"tenant": "*"}), all).await.unwrap();
    assert_eq!(principal.grant.scope, Scope::All);
    let one = |settings: &mut JwtSettings| settings.tenant = Some("house".into());
    let principal = means_with(json!({"tenant": null}), one).await.unwrap();
    assert_eq!(principal.grant.scope, Scope::One(Tenant::parse("house").unwrap()));
    let principal = means_with(json!({}), one).await.unwrap();
    assert_eq!(principal.grant.scope, Scope::One(Tenant::parse("acme").unwrap()));
    wrong_claim("tenant", means_with(json!({"tenant": 7}), one).await);
}

#[tokio::test]
async fn scopes_are_a_string_or_list_and_unknown_ones_are_ignored() {
    for (scope, expected) in [
        (json!(null), vec![]),
        (json!(""), vec![]),
        (json!("profile email"), vec![]),
        (json!("work  jobs:read"), vec![Right::JobsRead, Right::Work]),
        (json!(["work", "profile"]), vec![Right::Work]),
        (json!("Admin admin:x ADMIN"), vec![]),
        (json!("admin"), vec![Right::Admin]),
    ] {
        let principal = means(json!({"scope": scope})).await.unwrap();
        assert_eq!(principal.grant.rights.iter().collect::<Vec<_>>(), expected, "{scope}");
    }
    for scope in [json!(1), json!([1]), json!({"admin": true}), json!(true)] {
        wrong_claim("scope", means(json!({"scope": scope})).await);
    }
    let entra = |settings: &mut JwtSettings| settings.scopes_claim = "scp".into();
    let principal = means_with(json!({"scp": "metrics:read", "scope": "admin"}), entra).await;
    let rights: Vec<_> = principal.unwrap().grant.rights.iter().collect();
    assert_eq!(rights, [Right::MetricsRead]);
}

#[tokio::test]
async fn limits_limit_and_an_empty_list_does_not_open_everything() {
    let changes = json!({"types": "mail.*", "subjects": ["order/*", "a b"]});
    let grant = means(changes).await.unwrap().grant;
    let texts = |patterns: &[engine::Pattern]| -> Vec<String> {
        patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect()
    };
    assert_eq!(texts(&grant.types), ["mail.*"]);
    assert_eq!(texts(&grant.subjects), ["order/*", "a b"]);
    for name in ["types", "subjects"] {
        let many = vec!["x"; 101];
        for limit in [json!([]), json!(""), json!([""]), json!(0), json!(["a", 1]), json!(many)] {
            wrong_claim(name, means(json!({name: limit})).await);
        }
    }
    let (jwt, _folder) = open_file(&jwks([ec()])).await;
    let mut nothing = claims();
    nothing["types"] = Value::Null;
    wrong_claim("types", jwt.verify(&ec().token(&nothing), at(NOW)).await);
}

#[tokio::test]
async fn a_token_needs_a_valid_subject() {
    for sub in [json!(null), json!(""), json!(7), json!("a\nb"), json!("x".repeat(257))] {
        wrong_claim("sub", means(json!({"sub": sub})).await);
    }
    for letter in
        ['\u{202e}', '\u{2066}', '\u{200b}', '\u{200f}', '\u{ad}', '\u{feff}', '\u{e0041}']
    {
        let sub = json!(format!("ali{letter}ce"));
        wrong_claim("sub", means(json!({"sub": sub})).await);
    }
    let long = "ä".repeat(256);
    assert_eq!(*means(json!({"sub": long})).await.unwrap().who, format!("jwt:{long}"));
}

#[tokio::test]
async fn jwt_refusals_contain_nothing_of_the_token() {
    let planted = "planted-secret";
    for changes in [
        json!({"sub": format!("{planted}\n")}),
        json!({"tenant": planted.to_uppercase()}),
        json!({"iss": planted}),
        json!({"exp": planted}),
    ] {
        let refused = means(changes).await.unwrap_err();
        let all = format!("{refused} {refused:?} {}", refused.client_message()).to_lowercase();
        assert!(!all.contains(planted), "{all}");
    }
}

#[tokio::test]
async fn settings_that_would_believe_too_much_stop_the_start() {
    let set = jwks([ec()]);
    for bad in ["HS256", "HS384", "HS512", "none", "", "rs256", "RSA-OAEP"] {
        let refused = open_with(&set, |settings| settings.algorithms.push(bad.into())).await;
        assert!(matches!(refused, Err(JwtSetupError::Algorithm(name)) if name == bad));
    }
    let refused = open_with(&set, |settings| settings.algorithms.clear()).await;
    assert!(matches!(refused, Err(JwtSetupError::Empty("algorithms"))));
    let refused = open_with(&set, |settings| settings.issuer.clear()).await;
    assert!(matches!(refused, Err(JwtSetupError::Empty("issuer"))));
    let refused = open_with(&set, |settings| settings.audience.clear()).await;
    assert!(matches!(refused, Err(JwtSetupError::Empty("audience"))));
    let refused = open_with(&set, |settings| settings.types_claim.clear()).await;
    assert!(matches!(refused, Err(JwtSetupError::Empty("types_claim"))));
    for tenant in ["*", "A"] {
        let refused = open_with(&set, |settings| settings.tenant = Some(tenant.into())).await;
        assert!(matches!(refused, Err(JwtSetupError::Tenant(_))));
    }
    for url in ["http://id.example/keys", "id.example"] {
        let elsewhere = |settings: &mut JwtSettings| settings.jwks = JwksSource::Url(url.into());
        let refused = open_with(&set, elsewhere).await;
        assert!(matches!(refused, Err(JwtSetupError::Address(_))));
    }
}

#[tokio::test]
async fn a_file_without_keys_for_us_stops_the_start() {
    let shared = json!({"kty": "oct", "kid": "p256", "k": base64(&[7; 32])});
    let mut encryption = ec().jwk();
    encryption["use"] = "enc".into();
    let mut signing_only = ec().jwk();
    signing_only["key_ops"] = json!(["sign"]);
    let mut other_algorithm = ec().jwk();
    other_algorithm["alg"] = "ES512".into();
    let strange = json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"});
    for key in [shared, encryption, signing_only, other_algorithm, strange, json!({}), json!(1)] {
        let refused = open_with(&json!({"keys": [key]}), |_| {}).await;
        assert!(matches!(refused, Err(JwtSetupError::File(KeysError::NoneFits))), "{key}");
        // Beside a valid key it does no harm.
        let (jwt, _folder) = open_file(&json!({"keys": [key, rsa().jwk()]})).await;
        assert!(jwt.verify(&rsa().token(&claims()), at(NOW)).await.is_ok());
    }
    for (set, json) in [(json!({"keys": []}), false), (json!({}), true), (json!([]), true)] {
        let Err(JwtSetupError::File(error)) = open_with(&set, |_| {}).await else {
            panic!("{set} was taken")
        };
        assert_eq!(matches!(error, KeysError::Json(_)), json, "{set}");
    }
    let nowhere = |settings: &mut JwtSettings| settings.jwks = JwksSource::File("nowhere".into());
    let refused = open_with(&json!({}), nowhere).await;
    assert!(matches!(refused, Err(JwtSetupError::File(KeysError::File(_)))));
    let long = json!({"keys": [], "x": "x".repeat(300_000)});
    let refused = open_with(&long, |_| {}).await;
    assert!(matches!(refused, Err(JwtSetupError::File(KeysError::TooLarge))));
}

#[tokio::test]
async fn a_file_is_read_again_when_a_key_is_not_known() {
    let (jwt, folder) = open_file(&jwks([ec()])).await;
    let token = rsa().token(&claims());
    write(&folder.path().join("jwks.json"), &jwks([rsa()]));
    assert_eq!(jwt.verify(&token, at(NOW + 59)).await, Err(JwtRefused::UnknownKey));
    assert!(jwt.verify(&token, at(NOW + 60)).await.is_ok());
    let old = ec().token(&claims());
    assert_eq!(jwt.verify(&old, at(NOW + 61)).await, Err(JwtRefused::UnknownKey));
}

/// An issuer that serves its keys on this machine.
struct Issuer {
    url: String,
    /// What it publishes; `None` makes it answer 500.
    published: Arc<Mutex<Option<Value>>>,
    request_count: Arc<AtomicUsize>,
    /// Gets one message per request, before the answer.
    requests: UnboundedReceiver<()>,
    /// Once set, the issuer waits for a message here before it answers.
    waits_for: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

impl Issuer {
    fn publishing(set: Value) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let (request_sent, requests) = unbounded_channel();
        let published = Arc::new(Mutex::new(Some(set)));
        let request_count = Arc::new(AtomicUsize::new(0));
        let waits_for = Arc::new(Mutex::new(None::<mpsc::Receiver<()>>));
        let issuer = Issuer {
            url,
            published: published.clone(),
            request_count: request_count.clone(),
            requests,
            waits_for: waits_for.clone(),
        };
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.extend(byte);
                }
                request_count.fetch_add(1, Ordering::SeqCst);
                let _ = request_sent.send(());
                if let Some(permission) = &*waits_for.lock().unwrap() {
                    let _ = permission.recv();
                }
                let (status, body) = match &*published.lock().unwrap() {
                    Some(set) => ("200 OK", set.to_string()),
                    None => ("500 Broken", String::new()),
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n");
                let answer = format!("{head}Connection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        issuer
    }

    fn publish(&self, set: Option<Value>) {
        *self.published.lock().unwrap() = set;
    }

    fn request_count(&self) -> usize {
        self.request_count.load(Ordering::SeqCst)
    }

    async fn open(&mut self) -> Arc<Jwt> {
        let jwt = Jwt::open(settings(JwksSource::Url(self.url.clone())), at(NOW)).await.unwrap();
        self.requests.recv().await.unwrap();
        Arc::new(jwt)
    }
}

#[tokio::test]
async fn unknown_keys_cause_one_issuer_request_per_minute() {
    let mut issuer = Issuer::publishing(jwks([ec()]));
    let jwt = issuer.open().await;
    let good = ec().token(&claims());
    assert!(jwt.verify(&good, at(NOW)).await.is_ok());
    let unknown = |n: usize| {
        let header = json!({"alg": "ES256", "kid": format!("unknown {n}")});
        ec().token_with(&header, &claims())
    };
    // (seconds, how often the issuer was asked by then)
    for (seconds, request_count) in [(59, 1), (60, 2), (119, 2), (120, 3), (121, 3), (-3_600, 4)] {
        for n in 0..20 {
            let refused = jwt.verify(&unknown(n), at(NOW + seconds)).await;
            assert_eq!(refused, Err(JwtRefused::UnknownKey));
        }
        assert_eq!(issuer.request_count(), request_count, "after {seconds} seconds");
    }
    assert!(jwt.verify(&good, at(NOW)).await.is_ok());
}

#[tokio::test]
async fn all_who_come_at_once_share_one_question() {
    let mut issuer = Issuer::publishing(jwks([ec()]));
    let jwt = issuer.open().await;
    issuer.publish(Some(jwks([ec(), rsa()])));
    let token = rsa().token(&claims());
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..64 {
        let (jwt, token) = (jwt.clone(), token.clone());
        // Not all of them read the clock at the same moment.
        let now = Timestamp::from_unix_ms((NOW + 100) * 1_000 - n);
        callers.spawn(async move { jwt.verify(&token, now).await });
    }
    for result in callers.join_all().await {
        assert!(result.is_ok());
    }
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_take_the_answer_along() {
    let mut issuer = Issuer::publishing(jwks([ec()]));
    let jwt = issuer.open().await;
    issuer.publish(Some(jwks([rsa()])));
    let (answer, waits_for) = mpsc::channel();
    *issuer.waits_for.lock().unwrap() = Some(waits_for);
    let token = rsa().token(&claims());
    let caller = tokio::spawn({
        let (jwt, token) = (jwt.clone(), token.clone());
        async move { jwt.verify(&token, at(NOW + 60)).await }
    });
    issuer.requests.recv().await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    answer.send(()).unwrap();
    assert!(jwt.verify(&token, at(NOW + 61)).await.is_ok());
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn an_issuer_that_fails_keeps_its_keys() {
    let mut issuer = Issuer::publishing(jwks([ec()]));
    let jwt = issuer.open().await;
    let good = ec().token(&claims());
    for broken in [None, Some(json!({"keys": []})), Some(json!("sorry"))] {
        issuer.publish(broken);
        let unknown = rsa().token(&claims());
        let retry_after_if_full = at(NOW + 60 * issuer.request_count() as i64);
        assert_eq!(jwt.verify(&unknown, retry_after_if_full).await, Err(JwtRefused::UnknownKey));
        assert!(jwt.verify(&good, retry_after_if_full).await.is_ok());
    }
    assert_eq!(issuer.request_count(), 4);
}

#[tokio::test]
async fn a_key_that_was_taken_back_ends_while_others_are_used() {
    let mut issuer = Issuer::publishing(jwks([ec(), rsa()]));
    let jwt = issuer.open().await;
    issuer.publish(Some(jwks([rsa()])));
    let exp = NOW + 10_000;
    let [taken_back, other] = [ec(), rsa()].map(|key| key.token(&claims_but(json!({"exp": exp}))));
    assert!(jwt.verify(&taken_back, at(NOW + 599)).await.is_ok());
    assert_eq!(issuer.request_count(), 1);
    // A caller that comes then does not wait; the keys are read in the background.
    assert!(jwt.verify(&other, at(NOW + 600)).await.is_ok());
    let ended = async {
        while jwt.verify(&taken_back, at(NOW + 601)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
    assert_eq!(issuer.request_count(), 2);
    assert!(jwt.verify(&other, at(NOW + 602)).await.is_ok());
}

#[tokio::test]
async fn an_issuer_unreachable_at_start_is_asked_later() {
    let mut issuer = Issuer::publishing(jwks([ec()]));
    issuer.publish(None);
    let jwt = issuer.open().await;
    let good = ec().token(&claims());
    let refused = jwt.verify(&good, at(NOW + 1)).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    issuer.publish(Some(jwks([ec()])));
    assert!(jwt.verify(&good, at(NOW + 60)).await.is_ok());
}
