//! Compares the document with the table of routes, and checks that it is consistent.

use super::{OPENAPI, page};
use crate::routes::{Access, ROUTES};
use serde_json::Value;
use std::collections::BTreeSet;
use wire::{FIELD_DOCS, LEFT_OUT};

fn document() -> Value {
    serde_json::to_value(&*OPENAPI).unwrap()
}

/// Every operation, as (method, path, operation object).
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, item)| {
        let item = item.as_object().unwrap().iter();
        item.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    all.collect()
}

#[test]
fn every_route_is_in_the_document_and_no_other() {
    let documented: BTreeSet<(String, String)> =
        operations(&document()).into_iter().map(|(method, path, _)| (method, path)).collect();
    let routed = ROUTES.iter().map(|route| (route.method.into(), route.path.into())).collect();
    assert_eq!(documented, routed);
}

#[test]
fn documented_security_matches_route_access() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    for route in ROUTES {
        let method = route.method.to_lowercase();
        let needed = document["paths"][route.path][&method]["security"].as_array().unwrap();
        let schemes: Vec<&str> = needed
            .iter()
            .flat_map(|one| one.as_object().unwrap().keys())
            .map(String::as_str)
            .collect();
        let expected: &[&str] = match route.access {
            Access::Open => &[],
            Access::Right(_) => &["bearer"],
            Access::Signed(_) => &["bearer", "signedAddress"],
        };
        assert_eq!(schemes, expected, "{} {}", route.method, route.path);
    }
}

#[test]
fn names_of_operations_are_given_once_and_their_chapters_exist() {
    let document = document();
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        assert!(names.insert(operation["operationId"].to_string()), "{method} {path}: {operation}");
        let tags = document["tags"].as_array().unwrap();
        assert!(tags.iter().any(|tag| tag["name"] == operation["tags"][0]), "{method} {path}");
        assert!(
            operation["summary"].as_str().is_some_and(|title| !title.is_empty()),
            "{method} {path}"
        );
    }
}

#[test]
fn every_documented_response_has_an_example() {
    for route in ROUTES {
        let representations = route.doc.answers.iter().flat_map(|answer| answer.representations());
        let all_have_examples =
            representations.filter(|one| one.shape.is_some()).all(|one| !one.example.is_empty());
        assert!(all_have_examples, "{} {}", route.method, route.path);
    }
}

#[test]
fn every_name_in_the_document_leads_somewhere() {
    let document = document();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn every_field_has_a_description_and_each_one_is_used() {
    let document = document();
    let (mut found, mut undescribed) = (BTreeSet::new(), Vec::new());
    for (shape, schema) in document["components"]["schemas"].as_object().unwrap() {
        found.insert(shape.clone());
        let parts = schema["allOf"].as_array().cloned().unwrap_or_default();
        for part in parts.iter().chain([schema]) {
            for (field, field_schema) in part["properties"].as_object().into_iter().flatten() {
                found.extend([field.clone(), format!("{shape}.{field}")]);
                let in_one_of = field_schema["oneOf"].as_array().into_iter().flatten();
                let is_described =
                    in_one_of.chain([field_schema]).any(|part| part["description"].is_string());
                if !is_described {
                    undescribed.push(format!("{shape}.{field}"));
                }
            }
        }
    }
    assert!(undescribed.is_empty(), "these have no meaning: {undescribed:?}");
    let unused: Vec<&str> = FIELD_DOCS
        .iter()
        .map(|doc| doc.name)
        .chain(LEFT_OUT.iter().copied())
        .filter(|doc| !found.contains(*doc))
        .collect();
    assert!(unused.is_empty(), "no shape has {unused:?}");
}

#[test]
fn the_api_page_shows_all_operations_and_loads_nothing() {
    let html = page::page(&OPENAPI);
    for (_, path, operation) in operations(&document()) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(html.contains(&format!("<article id=\"{id}\">")), "{id}");
        assert!(html.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for fetched in ["<script", "<img", "<link", "src=", "@import", "url(", "href=\"http"] {
        assert!(!html.contains(fetched), "{fetched}");
    }
}
