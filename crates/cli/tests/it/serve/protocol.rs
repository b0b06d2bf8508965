//! HTTP as the standards and the contract want it, whatever the route.

use super::{Customer, customer::fresh, wait_until};
use serde_json::json;
use server::{Access, ROUTES};

#[test]
fn head_is_answered_as_get_without_a_body() {
    let customer = Customer::new();
    let id = customer.queued(&fresh("type"));
    for path in ["/healthz".into(), "/api/jobs".into(), format!("/api/jobs/{id}/status")] {
        let get = customer.owner.get(&path).send();
        let head = customer.owner.ask("HEAD", &path).send();
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    let refused = customer.test_server.anonymous().ask("HEAD", "/api/jobs").send();
    assert_eq!((refused.status, refused.body.len()), (401, 0));
}

#[test]
fn unknown_paths_and_jobs_are_not_found() {
    let customer = Customer::new();
    for path in ["/api", "/api/job", "/api/jobs/x/y/z", "/favicon.ico", "/api/jobs//status"] {
        let problem = customer.owner.get(path).send();
        assert_eq!(problem.status, 404, "{path}: {}", problem.text());
        customer.test_server.anonymous().get("/nothing").send().problem(404, "NOT_FOUND");
    }
    customer.owner.get("/api/jobs/no-id/status").send().problem(404, "JOB_NOT_FOUND");
    customer.owner.get("/errors/NO_SUCH_CODE").send().problem(404, "NOT_FOUND");
}

#[test]
fn the_root_says_what_answers_here() {
    let customer = Customer::new();
    let anonymous = customer.test_server.anonymous();
    let index = anonymous.get("/").send().ok(200);
    assert_eq!((&index["name"], &index["docs"]), (&json!("Consign"), &json!("/docs")));
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = anonymous.get("/").header("accept", browser).send();
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    for link in ["/docs", "/openapi.json", "/errors"] {
        assert!(page.text().contains(&format!("href=\"{link}\"")), "{link}: {}", page.text());
        assert_eq!(anonymous.get(link).send().status, 200, "{link}");
    }
    anonymous.get("/").header("accept", "image/png").send().problem(406, "NOT_ACCEPTABLE");
}

#[test]
fn a_method_that_a_path_does_not_take_is_refused_with_those_it_does() {
    let customer = Customer::new();
    for route in ROUTES {
        let path = route.path.replace("{id}", "x").replace("{jobType}", "x");
        let path = path.replace("{code}", "LEASE_LOST");
        let answer = customer.owner.ask("REPORT", &path).send();
        answer.problem(405, "METHOD_NOT_ALLOWED");
        let allow = answer.header("allow").unwrap_or_default();
        let allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
        for other in ROUTES.iter().filter(|other| other.path == route.path) {
            assert!(allowed.contains(&other.method), "{} {}: {allow}", other.method, other.path);
        }
    }
}

#[test]
fn a_form_that_we_do_not_speak_is_refused() {
    let customer = Customer::new();
    let answer = customer.owner.get("/api/jobs").header("accept", "text/csv").send();
    answer.problem(406, "NOT_ACCEPTABLE");
    let id = customer.completed(&fresh("type"));
    let events = format!("/api/jobs/{id}/events");
    let json = customer.owner.get(&events).header("accept", "application/json").send();
    json.problem(406, "NOT_ACCEPTABLE");
    let stream = customer.owner.get(&events).header("accept", "text/event-stream").send();
    assert_eq!(stream.status, 200);
    let page = customer.test_server.anonymous().get("/errors").header("accept", "text/html").send();
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.text().contains("LEASE_LOST"));
}

#[test]
fn a_body_that_is_no_json_is_refused() {
    let customer = Customer::new();
    let ask = || customer.owner.post("/api/jobs");
    let job = json!({"jobType": fresh("type")}).to_string();
    let form = ask().header("content-type", "application/x-www-form-urlencoded").body("a=b");
    form.send().problem(415, "UNSUPPORTED_MEDIA_TYPE");
    // A body without a content type means JSON: the server takes nothing else here.
    ask().body(job.clone()).send().ok(202);
    let utf8 = ask().header("content-type", "application/json; charset=utf-8").body(job.clone());
    utf8.send().ok(202);
    let typed = |body: &str| ask().header("content-type", "application/json").body(body).send();
    for broken in ["", "{", "[]", "5", "{\"jobType\":\"x\"} x", "\u{0}"] {
        typed(broken).problem(400, "MALFORMED_BODY");
    }
    let deep =
        format!("{{\"jobType\":\"x\",\"payload\":{}{}}}", "[".repeat(9999), "]".repeat(9999));
    let refused = typed(&deep);
    assert_eq!(refused.status, 400, "{}", refused.text());
}

/// The answer names every wrong field by its JSON pointer.
#[test]
fn wrong_fields_are_named_by_pointers() {
    let customer = Customer::new();
    let pointers = |body: serde_json::Value| -> Vec<String> {
        let problem =
            customer.owner.post("/api/jobs").json(&body).send().problem(400, "INVALID_FIELD");
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().into()).collect()
    };
    assert_eq!(pointers(json!({"jobType": 5})), ["/jobType"]);
    let mut several = pointers(
        json!({"jobType": "A b", "priority": 10, "maxAttempts": 0, "subjectId": "x\u{0}"}),
    );
    several.sort();
    assert_eq!(several, ["/jobType", "/maxAttempts", "/priority", "/subjectId"]);
    let batch = json!({"jobs": [{"jobType": "ok"}, {"jobType": "ok", "priority": -1}]});
    let problem = customer.owner.post("/api/jobs/batch").json(&batch).send();
    let problem = problem.problem(400, "INVALID_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/jobs/1/priority");
}

#[test]
fn oversized_requests_are_refused() {
    let customer = Customer::new();
    let text = |bytes: usize| json!({"jobType": "large", "payload": "x".repeat(bytes)});
    let ask = |bytes: usize| customer.owner.post("/api/jobs").json(&text(bytes)).send();
    ask(64 * 1024 - 2).ok(202);
    ask(64 * 1024).problem(413, "PAYLOAD_TOO_LARGE");
    ask(3 * 1024 * 1024).problem(413, "BODY_TOO_LARGE");
    // A client need not announce how much it will send.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let endless = customer.owner.post("/api/jobs").header("content-type", "application/json");
    let endless =
        endless.header("transfer-encoding", "chunked").body(chunk.repeat(3) + "0\r\n\r\n");
    endless.send().problem(413, "BODY_TOO_LARGE");
    let long = customer.owner.get("/healthz").header("x-long", &"x".repeat(20_000)).send();
    long.problem(431, "HEADERS_TOO_LARGE");
    let address = format!("/healthz?{}", "x".repeat(9_000));
    customer.owner.get(&address).send().problem(431, "HEADERS_TOO_LARGE");
}

#[test]
fn a_body_may_come_in_chunks_and_in_pieces() {
    let customer = Customer::new();
    let body = json!({"jobType": fresh("type")}).to_string();
    let (first, rest) = body.split_at(5);
    let chunks = format!("5\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
    let ask = customer.owner.post("/api/jobs").header("content-type", "application/json");
    ask.clone().header("transfer-encoding", "chunked").body(chunks).send().ok(202);
    let bytes = ask.body(body).bytes();
    let mut connection = customer.owner.connect().unwrap();
    for piece in bytes.chunks(7) {
        connection.write(piece).unwrap();
    }
    connection.answer("POST").unwrap().ok(202);
}

/// One connection serves request after request, refused ones among them.
#[test]
fn a_connection_is_kept() {
    let customer = Customer::new();
    let mut connection = customer.owner.connect().unwrap();
    for round in 0..20 {
        let job = json!({"jobType": if round % 2 == 0 { "kept" } else { "NOT A TYPE" }});
        let answer = connection.send(customer.owner.post("/api/jobs").json(&job)).unwrap();
        assert_eq!(answer.status, if round % 2 == 0 { 202 } else { 400 });
    }
}

#[test]
fn every_answer_carries_the_correlation_of_its_request() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type")});
    let ask = || customer.owner.post("/api/jobs").json(&job);
    let own = ask().header("x-correlation-id", "mine-1").send();
    assert_eq!(own.header("x-correlation-id"), Some("mine-1"));
    assert_eq!(own.ok(202)["correlationId"], "mine-1");
    let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let traced = ask().header(trace.0, trace.1).send().ok(202);
    assert_eq!(traced["correlationId"], "0af7651916cd43dd8448eb211c80319c");
    let both = ask().header(trace.0, trace.1).header("x-correlation-id", "mine-2").send().ok(202);
    assert_eq!(both["correlationId"], "mine-2");
    let body = json!({"jobType": fresh("type"), "correlationId": "mine-3"});
    let body = customer.owner.post("/api/jobs").json(&body).header("x-correlation-id", "other");
    let body = body.send();
    assert_eq!(body.ok(202)["correlationId"], "mine-3");
    assert_eq!(body.header("x-correlation-id"), Some("mine-3"));
    let new = ask().send().ok(202);
    assert_eq!(new["correlationId"].as_str().unwrap().len(), 36);
    let refused =
        customer.test_server.anonymous().get("/api/jobs").header("x-correlation-id", "mine-4");
    assert_eq!(refused.send().problem(401, "UNAUTHENTICATED")["correlationId"], "mine-4");
    let logged = |id: &str| customer.test_server.log().contains(id);
    wait_until("there is one line per request", || logged("mine-1") && logged("mine-4"));
}

/// Many clients send everything before they read. They must receive the refusal, and not a broken
/// pipe.
#[test]
fn clients_receive_the_refusal_of_a_large_body() {
    let customer = Customer::new();
    let large = vec![b'x'; 3 * 1024 * 1024];
    for _ in 0..5 {
        let anonymous = customer.test_server.anonymous();
        anonymous.post("/api/jobs").body(&large[..]).send().problem(401, "UNAUTHENTICATED");
        let text = customer.owner.post("/api/jobs").header("content-type", "text/plain");
        text.body(&large[..1024 * 1024]).send().problem(415, "UNSUPPORTED_MEDIA_TYPE");
        let json = customer.owner.post("/api/jobs").header("content-type", "application/json");
        json.body(&large[..]).send().problem(413, "BODY_TOO_LARGE");
    }
}

/// Invalid credentials of every form.
#[test]
fn invalid_credentials_are_refused() {
    let customer = Customer::new();
    let route = ROUTES.iter().find(|route| route.path == "/api/jobs").unwrap();
    assert!(matches!(route.access, Access::Right(_)));
    let key = customer.test_server.admin_key().to_owned();
    let cut = &key[..key.len() - 1];
    let wrong =
        ["", "Bearer", "Bearer ", &key, &format!("Basic {key}"), "Bearer csk_", "Bearer a.b.c"];
    let wrong = wrong.map(str::to_owned).into_iter().chain([
        format!("Bearer {cut}"),
        format!("Bearer {key}x"),
        format!("Bearer {}", key.to_uppercase()),
    ]);
    for value in wrong {
        let answer =
            customer.test_server.anonymous().get("/api/jobs").header("authorization", &value);
        let answer = answer.send();
        answer.problem(401, "UNAUTHENTICATED");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let lower = customer
        .test_server
        .anonymous()
        .get("/api/jobs")
        .header("authorization", &format!("bearer {key}"));
    lower.send().ok(200);
}

/// Planted secrets are found nowhere: neither in logs nor in answers.
#[test]
fn secrets_and_payloads_are_not_in_the_log() {
    let customer = Customer::new();
    let planted = "hunter2-planted-payload";
    let job_type = fresh("type");
    let job =
        json!({"jobType": job_type, "payload": {"password": planted}, "idempotencyKey": "k-1"});
    let signed = customer.owner.post("/api/jobs?withSignedUrl=true").json(&job).send().ok(202);
    let url = signed["signedStatusUrl"].as_str().unwrap();
    customer.test_server.anonymous().get(url).send().ok(200);
    let sig = url.split("sig=").nth(1).unwrap();
    let claimed = customer.claim(&job_type);
    let token = claimed["lease"]["token"].as_str().unwrap();
    assert_eq!(claimed["payload"]["password"], planted);
    let wrong = json!({"jobType": "NO", "payload": planted}).to_string();
    for body in [wrong.clone(), wrong.replace(':', ""), format!("{{\"jobType\":{planted}}}")] {
        let ask = customer.owner.post("/api/jobs").header("content-type", "application/json");
        let refused = ask.body(body).send();
        assert!(refused.status == 400 && !refused.text().contains(planted), "{}", refused.text());
    }
    let forged = format!("{url}x");
    let refused = customer.test_server.anonymous().get(&forged).send();
    assert!(refused.status == 401 && !refused.text().contains(sig), "{}", refused.text());
    let key = customer
        .test_server
        .key(json!({"name": "k", "tenant": customer.tenant, "scopes": ["work"]}));
    // Log lines are in order: after this one, all earlier ones are there.
    let last = fresh("last");
    customer.owner.get("/api/jobs").header("x-correlation-id", &last).send().ok(200);
    wait_until("the log is complete", || customer.test_server.log().contains(&last));
    let log = customer.test_server.log();
    for secret in [planted, sig, token, &key, customer.test_server.admin_key()] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

/// The protocol refuses what is no HTTP, with its status, and closes the connection.
#[test]
fn malformed_http_closes_the_connection() {
    let customer = Customer::new();
    let many: String = (0..300).map(|number| format!("x-{number}: y\r\n")).collect();
    let endless = format!("x: {}\r\n", "y".repeat(200_000));
    for (request, status) in [
        ("nonsense\r\n\r\n".into(), 400),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n".into(), 400),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n".into(), 400),
        (format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n"), 431),
        (format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{endless}\r\n"), 431),
    ] {
        let mut connection = customer.owner.connect().unwrap();
        // The server may refuse it before all of it was sent.
        drop(connection.write(request.as_bytes()));
        let answer = connection.answer("GET").unwrap();
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")));
        assert!(connection.answer("GET").is_err(), "nothing more comes");
    }
    customer.owner.get("/healthz").send().ok(200);
}
