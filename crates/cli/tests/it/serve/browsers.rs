//! Pages in browsers: which origins may read answers, signed addresses, and the page of
//! docs/browsers.md.

use super::{Answer, Customer, TestServer, customer::fresh};
use serde_json::{Value, json};
use server::ROUTES;
use std::{fs, process::Command, sync::Arc, thread};
use tempfile::TempDir;

const APP: &str = "https://app.example.org";

fn server_for(origins: &str) -> Customer {
    let settings =
        format!("cors_origins = [{origins}]\npublic_url = \"https://jobs.example.org/\"");
    Customer::of(&Arc::new(TestServer::with(&settings)))
}

fn admitted(answer: &Answer) -> Option<&str> {
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    answer.header("access-control-allow-origin")
}

fn preflight(customer: &Customer, path: &str, origin: &str) -> Answer {
    let ask = customer.test_server.anonymous().ask("OPTIONS", path).header("origin", origin);
    ask.header("access-control-request-method", "POST").send()
}

#[test]
fn pages_of_listed_origins_may_call_every_route() {
    let customer = server_for(&format!("\"{APP}\", \"http://localhost:5173\""));
    for route in ROUTES {
        let path = route.path.replace("{id}", "x").replace("{jobType}", "x");
        let answer = preflight(&customer, &path.replace("{code}", "X"), APP);
        assert_eq!((answer.status, admitted(&answer)), (204, Some(APP)), "{path}");
        let methods = answer.header("access-control-allow-methods").unwrap();
        assert!(methods.split(", ").any(|method| method == route.method), "{path}: {methods}");
        let headers = answer.header("access-control-allow-headers").unwrap();
        for header in ["authorization", "content-type", "idempotency-key", "last-event-id"] {
            assert!(headers.split(", ").any(|name| name == header), "{headers}");
        }
        assert_eq!(answer.header("access-control-max-age"), Some("3600"));
        assert_eq!(answer.header("vary"), Some("origin"));
    }
    let job = json!({"jobType": fresh("type")});
    let taken = customer.owner.post("/api/jobs").header("origin", APP).json(&job).send();
    assert_eq!((taken.status, admitted(&taken)), (202, Some(APP)));
    let exposed = taken.header("access-control-expose-headers").unwrap();
    assert_eq!(exposed, "etag, location, retry-after, x-correlation-id");
    // A page must be able to read why it was refused.
    let anonymous = customer.test_server.anonymous();
    let refused = anonymous.get("/api/jobs").header("origin", APP).send();
    refused.problem(401, "UNAUTHENTICATED");
    assert_eq!((admitted(&refused), refused.header("vary")), (Some(APP), Some("origin")));
    let unknown = anonymous.get("/nothing").header("origin", APP).send();
    assert_eq!((unknown.status, admitted(&unknown)), (404, Some(APP)));
}

#[test]
fn pages_of_other_origins_read_nothing() {
    let customer = server_for(&format!("\"{APP}\""));
    for origin in [
        "https://app.example.org.attacker.net",
        "https://attacker-app.example.org",
        "https://app.example.org:8443",
        "http://app.example.org",
        "https://APP.example.org",
        "null",
        "*",
        "",
    ] {
        let refused = preflight(&customer, "/api/jobs", origin);
        refused.problem(405, "METHOD_NOT_ALLOWED");
        assert_eq!(admitted(&refused), None, "{origin}");
        let read = customer.owner.get("/api/jobs").header("origin", origin).send();
        assert_eq!((read.status, admitted(&read)), (200, None), "{origin}");
        assert_eq!(read.header("access-control-expose-headers"), None);
        assert_eq!(read.header("vary"), Some("origin"), "a cache must not mix them up");
    }
    let two = customer.owner.get("/api/jobs").header("origin", APP).header("origin", APP).send();
    assert_eq!(admitted(&two), None);
}

#[test]
fn requests_without_an_origin_and_servers_without_the_setting_are_unchanged() {
    let customer = server_for(&format!("\"{APP}\""));
    let plain = customer.owner.get("/api/jobs").send();
    assert_eq!((plain.status, admitted(&plain), plain.header("vary")), (200, None, None));
    let options = customer.test_server.anonymous().ask("OPTIONS", "/api/jobs").send();
    options.problem(405, "METHOD_NOT_ALLOWED");
    let customer = Customer::new();
    let other = customer.owner.get("/api/jobs").header("origin", APP).send();
    assert_eq!((other.status, admitted(&other), other.header("vary")), (200, None, None));
    preflight(&customer, "/api/jobs", APP).problem(405, "METHOD_NOT_ALLOWED");
}

#[test]
fn every_website_is_admitted_only_where_the_setting_says_so() {
    let customer = server_for("\"*\"");
    for origin in [APP, "https://other.example", "null"] {
        let read = customer.owner.get("/api/jobs").header("origin", origin).send();
        assert_eq!((admitted(&read), read.header("vary")), (Some("*"), None), "{origin}");
    }
    assert_eq!(preflight(&customer, "/api/jobs", APP).status, 204);
}

fn signed(customer: &Customer, job_type: &str) -> Value {
    let job = json!({"jobType": job_type});
    customer.owner.post("/api/jobs?withSignedUrl=true").json(&job).send().ok(202)
}

#[test]
fn signed_addresses_begin_with_the_public_url() {
    let customer = server_for("");
    let taken = signed(&customer, &fresh("type"));
    let id = taken["jobId"].as_str().unwrap();
    for (field, route) in [("signedStatusUrl", "status"), ("signedEventsUrl", "events")] {
        let url = taken[field].as_str().unwrap();
        let path = url.strip_prefix("https://jobs.example.org").unwrap_or_else(|| panic!("{url}"));
        assert!(path.starts_with(&format!("/api/jobs/{id}/{route}?sig=")), "{url}");
        assert_eq!(customer.test_server.anonymous().get(path).send().status, 200);
        customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    }
    let taken = signed(&Customer::new(), &fresh("type"));
    assert!(taken["signedEventsUrl"].as_str().unwrap().starts_with("/api/jobs/"), "{taken}");
    let plain = customer.owner.post("/api/jobs").json(&json!({"jobType": "x"})).send().ok(202);
    assert!(plain.get("signedEventsUrl").is_none(), "{plain}");
}

/// What a browser has and Node.js lacks: elements, the application's server, and `EventSource`. The
/// first answer is a proxy's `502`, which closes an `EventSource`.
const BROWSER: &str = r##"
const elements = {}
const addressOfStream = process.argv[2]
globalThis.document = { querySelector: name => (elements[name] ??= { states: [] }) }
let refusals = 1
globalThis.EventSource = class extends EventTarget {
  static CLOSED = 2
  readyState = 0
  #stop = new AbortController()
  constructor(url) { super(); void this.#read(url) }
  close() { this.#stop.abort() }
  async #read(url) {
    const refusal = refusals-- > 0 && new Response(null, { status: 502 })
    const answer = await (refusal || nativeFetch(url, { signal: this.#stop.signal }))
    if (!answer.ok) {
      this.readyState = EventSource.CLOSED
      return this.dispatchEvent(new Event("error"))
    }
    let text = ""
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      text += piece
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const lines = text.slice(0, end).split("\n").filter(line => !line.startsWith(":"))
        const field = name => lines.find(line => line.startsWith(name + ": "))?.slice(name.length + 2)
        if (!field("event")) continue
        this.dispatchEvent(new MessageEvent(field("event"), { data: field("data") }))
        console.log(`${elements["#bar"].value} ${elements["#state"].textContent}`)
      }
    }
  }
}
const nativeFetch = globalThis.fetch
globalThis.fetch = async () => ({ json: async () => ({ signedEventsUrl: addressOfStream }) })
process.on("unhandledRejection", error => { if (error.name !== "AbortError") throw error })
"##;

/// What the page shows after each event.
fn shown_by_the_page(url: &str) -> thread::JoinHandle<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/browsers.md");
    let page = fs::read_to_string(page).unwrap();
    let script = page.split("<script type=\"module\">").nth(1).unwrap();
    let script = script.split("</script>").next().unwrap();
    let (folder, url) = (TempDir::new().unwrap(), url.to_owned());
    fs::write(folder.path().join("page.mjs"), format!("{BROWSER}{script}")).unwrap();
    thread::spawn(move || {
        let run = Command::new("node").arg(folder.path().join("page.mjs")).arg(url).output();
        let run = run.expect("Node.js is missing: run `cargo xtask prepare`");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    })
}

#[test]
fn the_page_of_the_handbook_follows_a_job_to_its_end() {
    let customer = Customer::new();
    let origin = format!("http://{}", customer.test_server.anonymous().address());
    for (ending, last) in [
        (json!({"outcome": "completed", "message": "7 rows"}), "100 7 rows"),
        (json!({"outcome": "poisoned", "errorCode": "BAD_DATA"}), "40 failed: BAD_DATA"),
    ] {
        let job_type = fresh("type");
        let taken = signed(&customer, &job_type);
        let page =
            shown_by_the_page(&format!("{origin}{}", taken["signedEventsUrl"].as_str().unwrap()));
        let job = customer.claim(&job_type);
        let progress = json!({"percent": 40, "note": "halfway there"});
        customer.heartbeat(&job, json!({"progress": progress}));
        customer.settle(&job, ending);
        let shown = page.join().unwrap();
        assert_eq!(shown.lines().last(), Some(last), "{shown}");
    }
}
