//! Compares the document with the table of routes, and checks that it is consistent.

use super::{DOCUMENT_ITSELF, page};
use crate::routes::{Access, ROUTES};
use serde_json::Value;
use std::collections::BTreeSet;
use wire::{FIELD_DOCS, LEFT_OUT};

fn document() -> Value {
    serde_json::to_value(&*DOCUMENT_ITSELF).unwrap()
}

/// Every operation, as (method, path, operation object).
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, item)| {
        let item = item.as_object().unwrap().iter();
        item.map(|(method, said)| (method.to_uppercase(), path.clone(), said.clone()))
    });
    all.collect()
}

#[test]
fn every_route_is_in_the_document_and_no_other() {
    let told: BTreeSet<(String, String)> =
        operations(&document()).into_iter().map(|(method, path, _)| (method, path)).collect();
    let there = ROUTES.iter().map(|route| (route.method.into(), route.path.into())).collect();
    assert_eq!(told, there);
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
    for (method, path, said) in operations(&document) {
        assert!(names.insert(said["operationId"].to_string()), "{method} {path}: {said}");
        let tags = document["tags"].as_array().unwrap();
        assert!(tags.iter().any(|tag| tag["name"] == said["tags"][0]), "{method} {path}");
        assert!(said["summary"].as_str().is_some_and(|title| !title.is_empty()), "{method} {path}");
    }
}

#[test]
fn every_documented_response_has_an_example() {
    for route in ROUTES {
        let forms = route.doc.answers.iter().flat_map(|answer| answer.forms());
        let shown = forms.filter(|form| form.shape.is_some()).all(|form| !form.example.is_empty());
        assert!(shown, "{} {}", route.method, route.path);
    }
}

#[test]
fn every_name_in_the_document_leads_somewhere() {
    let document = document();
    let text = document.to_string();
    for place in text.split("\"$ref\":\"#").skip(1) {
        let pointer = place.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn every_field_has_a_description_and_each_one_is_used() {
    let document = document();
    let (mut found, mut silent) = (BTreeSet::new(), Vec::new());
    for (shape, schema) in document["components"]["schemas"].as_object().unwrap() {
        found.insert(shape.clone());
        let parts = schema["allOf"].as_array().cloned().unwrap_or_default();
        for part in parts.iter().chain([schema]) {
            for (field, said) in part["properties"].as_object().into_iter().flatten() {
                found.extend([field.clone(), format!("{shape}.{field}")]);
                let in_one_of = said["oneOf"].as_array().into_iter().flatten();
                let told = in_one_of.chain([said]).any(|part| part["description"].is_string());
                if !told {
                    silent.push(format!("{shape}.{field}"));
                }
            }
        }
    }
    assert!(silent.is_empty(), "these have no meaning: {silent:?}");
    let unused: Vec<&str> = FIELD_DOCS
        .iter()
        .map(|word| word.name)
        .chain(LEFT_OUT.iter().copied())
        .filter(|word| !found.contains(*word))
        .collect();
    assert!(unused.is_empty(), "no shape has {unused:?}");
}

#[test]
fn the_api_page_shows_all_operations_and_loads_nothing() {
    let html = page::page(&DOCUMENT_ITSELF);
    for (_, path, said) in operations(&document()) {
        let id = said["operationId"].as_str().unwrap();
        assert!(html.contains(&format!("<article id=\"{id}\">")), "{id}");
        assert!(html.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for fetched in ["<script", "<img", "<link", "src=", "@import", "url(", "href=\"http"] {
        assert!(!html.contains(fetched), "{fetched}");
    }
}
