//! Forged tokens and signed addresses, at the real HTTP API.

use super::{Client, Customer, TestServer, customer::fresh};
use hmac::{Hmac, KeyInit, Mac};
use platform::SystemClock;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};
use serde_json::{Value, json};
use sha2::Sha256;
use std::{fs, sync::Arc};
use store::Clock;
use tempfile::TempDir;

/// An issuer whose public key the server knows.
pub(super) struct Issuer {
    key: KeyPair,
}

impl Issuer {
    pub(super) fn new() -> Self {
        Issuer { key: KeyPair::generate_for(&PKCS_ED25519).unwrap() }
    }

    /// A server that trusts it.
    pub(super) fn test_server(&self) -> TestServer {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("jwks.json");
        fs::write(&file, json!({"keys": [self.jwk()]}).to_string()).unwrap();
        let data = folder.path().join("data");
        let settings = format!(
            "[jwt]\nissuer = \"https://issuer.test\"\naudience = \"consign\"\n\
             algorithms = [\"EdDSA\"]\njwks_file = {:?}\n",
            file
        );
        TestServer::on(folder, data, &settings)
    }

    fn jwk(&self) -> Value {
        let x = base64(self.key.der_bytes());
        json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "one", "x": x})
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        let head = json!({"typ": "JWT", "alg": "EdDSA", "kid": "one"});
        signed_token(&head, claims, |text| self.key.sign(text).unwrap())
    }
}

/// Claims that are valid for an hour.
pub(super) fn claims(scope: &str) -> Value {
    let now = SystemClock::new().read().wall.unix_ms() / 1_000;
    json!({
        "iss": "https://issuer.test", "aud": "consign", "sub": "somebody", "tenant": "acme",
        "exp": now + 3_600, "scope": scope,
    })
}

fn but(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn signed_token(head: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let text = format!(
        "{}.{}",
        base64(head.to_string().as_bytes()),
        base64(claims.to_string().as_bytes())
    );
    let signature = sign(text.as_bytes());
    format!("{text}.{}", base64(&signature))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for letter in 0..=three.len() {
            text.push(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63] as char);
        }
    }
    text
}

#[test]
fn only_jwts_of_the_configured_issuer_are_accepted() {
    let issuer = Issuer::new();
    let test_server = issuer.test_server();
    let good = claims("jobs:enqueue jobs:read");
    let job = json!({"jobType": "jwt", "payload": 1});
    let client = test_server.anonymous().with_key(&issuer.token(&good));
    let taken = client.post("/api/jobs").json(&job).send().ok(202);
    client.get(taken["statusUrl"].as_str().unwrap()).send().ok(200);
    client.get("/api/audit").send().problem(403, "FORBIDDEN");

    let public = issuer.key.der_bytes().to_vec();
    let pem = issuer.key.public_key_pem();
    let other = Issuer::new();
    let hs256 = |secret: &[u8]| {
        let head = json!({"typ": "JWT", "alg": "HS256", "kid": "one"});
        signed_token(&head, &good, |text| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
            mac.update(text);
            mac.finalize().into_bytes().to_vec()
        })
    };
    let none =
        |name: &str| signed_token(&json!({"typ": "JWT", "alg": name}), &good, |_| Vec::new());
    let own_key =
        json!({"typ": "JWT", "alg": "EdDSA", "jwk": other.jwk(), "jku": "https://a.test"});
    let past = good["exp"].as_i64().unwrap() - 7_200;
    let valid_token = issuer.token(&good);
    let (text, signature) = valid_token.rsplit_once('.').unwrap();
    let richer = base64(but(good.clone(), "scope", json!("admin")).to_string().as_bytes());
    let head = text.split('.').next().unwrap();
    let forged = [
        ("no algorithm", none("none")),
        ("no algorithm, shouted", none("NONE")),
        ("the public key as a shared secret", hs256(&public)),
        ("the same as text", hs256(pem.as_bytes())),
        ("another issuer's key", other.token(&good)),
        (
            "a key that it brings itself",
            signed_token(&own_key, &good, |t| other.key.sign(t).unwrap()),
        ),
        ("another issuer", issuer.token(&but(good.clone(), "iss", json!("https://evil.test")))),
        ("another audience", issuer.token(&but(good.clone(), "aud", json!("others")))),
        ("over", issuer.token(&but(good.clone(), "exp", json!(past)))),
        ("never over", issuer.token(&but(good.clone(), "exp", Value::Null))),
        ("over, as text", issuer.token(&but(good.clone(), "exp", json!(past.to_string())))),
        ("without its signature", format!("{text}.")),
        ("other claims under the same signature", format!("{head}.{richer}.{signature}")),
        ("all tenants", issuer.token(&but(good.clone(), "tenant", json!("*")))),
    ];
    for (what, token) in forged {
        let answer = test_server.anonymous().with_key(&token).post("/api/jobs").json(&job).send();
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        answer.problem(401, "UNAUTHENTICATED");
        assert!(!test_server.log().contains(&token), "{what}: it is in the log");
    }
    let jobs = client.get("/api/jobs").send().ok(200);
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "nothing was taken in: {jobs}");
}

/// The signed address of a new job.
fn signed(client: &Client, job_type: &str) -> String {
    let job = json!({"jobType": job_type, "payload": {"a": 1}});
    let taken = client.post("/api/jobs?withSignedUrl=true").json(&job).send().ok(202);
    taken["signedStatusUrl"].as_str().unwrap().into()
}

#[test]
fn a_signed_url_grants_only_status_and_events_of_one_job() {
    let test_server = Arc::new(TestServer::start());
    let customer = Customer::of(&test_server);
    let job_type = fresh("type");
    let (one, other) = (signed(&customer.owner, &job_type), signed(&customer.owner, &job_type));
    let anonymous = test_server.anonymous();
    anonymous.get(&one).send().ok(200);
    anonymous.get(&one.replace("/status?", "/events?")).events();

    let (path, sig) = one.split_once("?sig=").unwrap();
    let (other_path, _) = other.split_once("?sig=").unwrap();
    let refused = |what: &str, method: &str, address: &str| {
        let answer = anonymous.ask(method, address).send();
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        assert!(!answer.text().contains(sig), "{what}: {}", answer.text());
    };
    refused("another job", "GET", &format!("{other_path}?sig={sig}"));
    for route in ["", "/history", "/explain"] {
        let address = one.replace("/status?", &format!("{route}?"));
        refused("another route", "GET", &address);
    }
    refused("the list", "GET", &format!("/api/jobs?sig={sig}"));
    refused("another method", "DELETE", &one);
    refused("cancel", "POST", &one.replace("/status?", "/cancel?"));
    refused("no signature", "GET", &format!("{path}?sig="));
    refused("half of it", "GET", &format!("{path}?sig={}", &sig[..sig.len() / 2]));
    for position in [2, sig.len() / 2, sig.len() - 1] {
        let mut altered = sig.as_bytes().to_vec();
        altered[position] = if altered[position] == b'0' { b'1' } else { b'0' };
        let altered = String::from_utf8(altered).unwrap();
        refused("a bent digit", "GET", &format!("{path}?sig={altered}"));
    }
    assert_eq!(anonymous.get(&one).send().ok(200)["status"], "Queued", "it was not cancelled");

    let keys = test_server.admin().get("/api/keys").send().ok(200);
    let keys = keys["items"].as_array().unwrap();
    let signing: Vec<&Value> = keys.iter().filter(|key| key["kind"] == "signing").collect();
    assert!(!signing.is_empty(), "{keys:?}");
    for key in signing {
        let path = format!("/api/keys/{}", key["id"].as_str().unwrap());
        assert_eq!(test_server.admin().delete(&path).send().status, 204);
    }
    refused("its key was revoked", "GET", &one);
    anonymous.get(&signed(&customer.owner, &job_type)).send().ok(200);
}
