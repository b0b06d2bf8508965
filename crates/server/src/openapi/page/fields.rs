//! The fields of an object, as a table.

use super::super::schema_rules::{description_of, name_of};
use super::prose::prose_line;
use maud::{Markup, html};
use utoipa::openapi::{
    KnownFormat, Object, OpenApi, RefOr, Schema, SchemaFormat, Type,
    schema::{AdditionalProperties, ArrayItems, SchemaType},
};
use wire::{NO_NUL, UUID};

/// One field of an object.
pub(super) struct Field<'a> {
    name: &'a str,
    is_required: bool,
    schema: &'a RefOr<Schema>,
}

/// The fields of an object, also of one that is composed of several.
pub(super) fn fields_of<'a>(document: &'a OpenApi, schema: &'a RefOr<Schema>) -> Vec<Field<'a>> {
    match schema {
        RefOr::Ref(named) => {
            let shapes = document.components.as_ref().map(|components| &components.schemas);
            let shape = shapes.and_then(|shapes| shapes.get(name_of(named)));
            shape.map(|shape| fields_of(document, shape)).unwrap_or_default()
        }
        RefOr::T(Schema::Object(object)) => own_fields(object),
        RefOr::T(Schema::AllOf(all)) => {
            all.items.iter().flat_map(|part| fields_of(document, part)).collect()
        }
        RefOr::T(_) => Vec::new(),
    }
}

fn own_fields(object: &Object) -> Vec<Field<'_>> {
    let is_required = |name| object.required.contains(name);
    let fields = object.properties.iter();
    fields.map(|(name, schema)| Field { name, is_required: is_required(name), schema }).collect()
}

pub(super) fn table(fields: &[Field<'_>]) -> Markup {
    html! {
        div.wide { table {
            tr { th { "field" } th { "what" } th { "meaning" } }
            @for field in fields {
                tr {
                    td { code { (field.name) } @if field.is_required { span.needed { "needed" } } }
                    td { (kind_of(field.schema)) }
                    td { (prose_line(&description_of(field.schema))) }
                }
            }
        } }
    }
}

/// The type of a value, and its bounds.
pub(super) fn kind_of(schema: &RefOr<Schema>) -> Markup {
    match schema {
        RefOr::Ref(named) => {
            html! { a href={ "#shape-" (name_of(named)) } { (name_of(named)) } }
        }
        RefOr::T(Schema::Object(object)) => object_kind(object),
        RefOr::T(Schema::Array(list)) => html! {
            "list of "
            @if let ArrayItems::RefOrSchema(item) = &list.items { (kind_of(item)) }
            @if let Some(max) = list.max_items {
                small { " " (list.min_items.unwrap_or(0)) " to " (max) " entries" }
            }
        },
        RefOr::T(Schema::OneOf(one)) => either(&one.items, " or "),
        RefOr::T(Schema::AllOf(all)) => either(&all.items, " and "),
        RefOr::T(Schema::AnyOf(any)) => either(&any.items, " or "),
        RefOr::T(_) => html! { "anything" },
    }
}

fn either(items: &[RefOr<Schema>], between: &str) -> Markup {
    html! { @for (index, item) in items.iter().enumerate() { @if index > 0 { (between) } (kind_of(item)) } }
}

fn object_kind(object: &Object) -> Markup {
    html! {
        (types(&object.schema_type))
        @if let Some(values) = &object.enum_values {
            ": " @for type_name in values { code { (type_name.as_str().unwrap_or_default()) } " " }
        }
        @if let Some(additional) = &object.additional_properties
            && let AdditionalProperties::RefOr(value) = &**additional { " of " (kind_of(value)) }
        @for bound in bounds(object) { small { " " (bound) } }
        @if let Some(form) = form(object) { " " code { (form) } }
    }
}

fn types(types: &SchemaType) -> String {
    let type_name = |kind: &Type| match kind {
        Type::Object => "object",
        Type::String => "text",
        Type::Integer => "whole number",
        Type::Number => "number",
        Type::Boolean => "true or false",
        Type::Array => "list",
        Type::Null => "null",
    };
    match types {
        SchemaType::Type(kind) => type_name(kind).into(),
        SchemaType::Array(kinds) => kinds.iter().map(type_name).collect::<Vec<_>>().join(" or "),
        SchemaType::AnyValue => "any JSON".into(),
    }
}

fn bounds(object: &Object) -> Vec<String> {
    let number = |bound: &utoipa::Number| match bound {
        utoipa::Number::Int(number) => number.to_string(),
        utoipa::Number::UInt(number) => number.to_string(),
        utoipa::Number::Float(number) => number.to_string(),
    };
    let range = match (&object.minimum, &object.maximum) {
        (Some(min), Some(max)) => Some(format!("{} to {}", number(min), number(max))),
        (Some(min), None) => Some(format!("from {}", number(min))),
        (None, Some(max)) => Some(format!("up to {}", number(max))),
        (None, None) => None,
    };
    let length = object.max_length.map(|max| format!("up to {max} characters"));
    let format = match &object.format {
        Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)) => Some("RFC 3339 time".into()),
        Some(SchemaFormat::Custom(name)) if name == "uuid" => Some("UUID".into()),
        Some(_) | None => None,
    };
    [format, range, length].into_iter().flatten().collect()
}

/// The pattern, where it says more than the text beside it.
fn form(object: &Object) -> Option<&str> {
    object.pattern.as_deref().filter(|form| *form != NO_NUL && *form != UUID)
}
