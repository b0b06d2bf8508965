//! The HTML page of the document.

use super::{
    super::{TestServer, customer::shared},
    Document,
};

#[test]
fn the_api_page_shows_every_operation_and_loads_nothing() {
    let test_server = shared();
    let answer =
        test_server.anonymous().get("/docs").header("accept", "text/html,*/*;q=0.8").send();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for operation in Document::of(&test_server).operations() {
        let article = format!("<article id=\"{}\">", operation.id());
        assert!(answer.text().contains(&article), "{article}");
    }
}

#[test]
fn a_client_with_the_current_document_receives_304() {
    let test_server: std::sync::Arc<TestServer> = shared();
    for path in ["/openapi.json", "/docs"] {
        let first = test_server.anonymous().get(path).send();
        let etag = first.header("etag").unwrap().to_owned();
        let again = test_server.anonymous().get(path).header("if-none-match", &etag).send();
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        let other = test_server.anonymous().get(path).header("if-none-match", "\"other\"").send();
        assert_eq!(other.status, 200, "{path}");
        test_server
            .anonymous()
            .get(path)
            .header("accept", "image/png")
            .send()
            .problem(406, "NOT_ACCEPTABLE");
    }
}
