//! The API document as a client reads it that has nothing else.

use super::super::{Answer, TestServer};
use jsonschema::Draft;
use serde_json::{Value, json};

pub(super) struct Document(pub(super) Value);

/// One operation of the document.
pub(super) struct Operation {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) spec: Value,
}

impl Document {
    pub(super) fn of(test_server: &TestServer) -> Self {
        let answer = test_server.anonymous().get("/openapi.json").send();
        assert_eq!(answer.header("content-type"), Some("application/json"));
        Document(answer.ok(200))
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, item)| {
            let item = item.as_object().unwrap().iter();
            item.map(|(method, spec)| Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                spec: spec.clone(),
            })
        });
        all.collect()
    }

    /// The violations of this schema of the document by `value`.
    pub(super) fn faults(&self, schema: &Value, value: &Value) -> Vec<String> {
        let schema_with_components = json!({"allOf": [schema], "components": self.0["components"]});
        let options = jsonschema::options().with_draft(Draft::Draft202012);
        let validator = options
            .build(&schema_with_components)
            .unwrap_or_else(|error| panic!("{schema}: {error}"));
        validator.iter_errors(value).map(|fault| fault.to_string()).collect()
    }

    /// Checks that the answer is one of those that the document has for the operation.
    #[track_caller]
    pub(super) fn check(&self, operation: &Operation, answer: &Answer) {
        let (name, status, text) = (operation.id(), answer.status, answer.text());
        let documented = &operation.spec["responses"][status.to_string()];
        assert!(documented.is_object(), "{name}: {status} is not documented: {text}");
        for (header, _) in documented["headers"].as_object().unwrap() {
            let limited = header.starts_with("RateLimit"); // only where a limit is set
            let may_miss = limited
                || matches!(
                    &**header,
                    "Retry-After" | "Preference-Applied" | "Consign-Unconfirmed-Nodes"
                );
            let is_present = answer.header(&header.to_lowercase()).is_some();
            assert!(is_present || may_miss, "{name}: {status} has no {header}");
        }
        let Some(content) = documented["content"].as_object() else {
            return assert_eq!(text, "", "{name}: {status} has no body");
        };
        let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
        let media_type =
            content.get(kind).unwrap_or_else(|| panic!("{name}: {kind} is not documented"));
        if !kind.ends_with("json") {
            return;
        }
        let faults = self.faults(&media_type["schema"], &answer.json());
        assert!(faults.is_empty(), "{name}: {status}: {faults:?}: {text}");
        if kind == "application/problem+json" {
            let code = answer.json()["errorCode"].as_str().unwrap().to_owned();
            assert!(
                media_type["examples"].get(&code).is_some(),
                "{name}: {status} is never {code}"
            );
        }
    }
}

impl Operation {
    pub(super) fn id(&self) -> &str {
        self.spec["operationId"].as_str().unwrap()
    }

    /// The request body, if the operation has one.
    pub(super) fn body(&self) -> Option<&Value> {
        self.spec["requestBody"].get("content").map(|content| &content["application/json"])
    }

    /// The path with the examples of its parameters.
    pub(super) fn example_path(&self) -> String {
        let parameters = self.spec["parameters"].as_array().unwrap().iter();
        parameters.fold(self.path.clone(), |path, parameter| {
            let name = format!("{{{}}}", parameter["name"].as_str().unwrap());
            let example = parameter["schema"]["examples"][0].as_str().unwrap_or_default();
            path.replace(&name, example)
        })
    }
}
