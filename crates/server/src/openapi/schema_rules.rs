//! Adds to the schemas what the types of the shapes cannot express, from one table
//! (`wire::FIELD_DOCS`).

use std::collections::{BTreeMap, BTreeSet};
use utoipa::openapi::{
    KnownFormat, Object, OneOfBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
    schema::{ArrayItems, SchemaType},
};
use wire::{FieldRule, LEFT_OUT, NO_NUL, SPAN, UUID, field_doc};

/// The schemas of all shapes, by name.
pub(super) type Shapes = BTreeMap<String, RefOr<Schema>>;

/// Applies the rules to all schemas. A schema that only answers use requires its fields, which are
/// present even if null.
pub(super) fn with_rules(shapes: Shapes, request_shapes: &BTreeSet<String>) -> Shapes {
    let plain: Shapes =
        shapes.iter().filter(|(_, shape)| is_plain(shape)).map(without_description).collect();
    let mut done = Shapes::new();
    let mut rules = SchemaRules { plain: &plain, enums: Shapes::new() };
    for (name, mut shape) in shapes.into_iter().filter(|(name, _)| !plain.contains_key(name)) {
        rules.schema_rules(&name, &mut shape, !request_shapes.contains(&name));
        done.insert(name, shape);
    }
    done.extend(rules.enums);
    done
}

/// Removes the description of a plain type: it says nothing about a single field.
fn without_description((name, shape): (&String, &RefOr<Schema>)) -> (String, RefOr<Schema>) {
    let mut shape = shape.clone();
    if let RefOr::T(Schema::Object(object)) = &mut shape {
        object.description = None;
    }
    (name.clone(), shape)
}

/// A text, a number or any value: too little for a schema of its own name.
fn is_plain(shape: &RefOr<Schema>) -> bool {
    let RefOr::T(Schema::Object(object)) = shape else { return false };
    let is_object = of_type(&object.schema_type, &Type::Object);
    object.enum_values.is_none() && object.properties.is_empty() && !is_object
}

pub(super) fn of_type(types: &SchemaType, wanted: &Type) -> bool {
    match types {
        SchemaType::Type(one) => one == wanted,
        SchemaType::Array(several) => several.contains(wanted),
        SchemaType::AnyValue => false,
    }
}

struct SchemaRules<'a> {
    plain: &'a Shapes,
    /// The sets of enum values, each under its name.
    enums: Shapes,
}

impl SchemaRules<'_> {
    fn schema_rules(&mut self, name: &str, shape: &mut RefOr<Schema>, is_answer: bool) {
        let RefOr::T(schema) = shape else { return };
        match schema {
            Schema::Object(object) => self.fields(name, object, is_answer),
            Schema::AllOf(all) => {
                all.items.iter_mut().for_each(|part| self.schema_rules(name, part, is_answer));
            }
            Schema::OneOf(one) => {
                one.items.iter_mut().for_each(|part| self.schema_rules(name, part, is_answer));
                if let Some(doc) = field_doc("", name) {
                    self.apply(doc.rule, shape);
                }
            }
            Schema::AnyOf(_) | Schema::Array(_) | _ => {}
        }
    }

    fn fields(&mut self, shape: &str, object: &mut Object, is_answer: bool) {
        for (field, schema) in &mut object.properties {
            self.inline(schema);
            forget_default(schema);
            let Some(doc) = field_doc(shape, field) else { continue };
            self.apply(doc.rule, schema);
            explain(schema, doc.meaning);
        }
        if is_answer {
            let is_present =
                |field: &&String| !LEFT_OUT.contains(&format!("{shape}.{field}").as_str());
            object.required = object.properties.keys().filter(is_present).cloned().collect();
        }
    }

    /// Replaces a reference to a plain type by the type itself.
    fn inline(&self, schema: &mut RefOr<Schema>) {
        let description = description_of(schema);
        match schema {
            RefOr::Ref(named) => {
                let Some(plain) = self.plain.get(name_of(named)) else { return };
                *schema = plain.clone();
            }
            RefOr::T(Schema::OneOf(one)) => {
                one.items.iter_mut().for_each(|item| self.inline(item));
                let Some(plain) = or_null(&one.items) else { return };
                *schema = plain;
            }
            RefOr::T(Schema::Array(list)) => {
                let ArrayItems::RefOrSchema(item) = &mut list.items else { return };
                self.inline(item);
            }
            RefOr::T(_) => {}
        }
        explain(schema, &description);
    }

    fn apply(&mut self, rule: FieldRule, schema: &mut RefOr<Schema>) {
        let RefOr::T(bare) = schema else { return };
        match (rule, bare) {
            (FieldRule::OneOf(name, values), Schema::Object(object)) if is_text(object) => {
                let nullable = of_type(&object.schema_type, &Type::Null);
                let description = object.description.take().unwrap_or_default();
                *schema = self.set(name, values(), nullable);
                explain(schema, &description);
            }
            (rule, Schema::Object(object)) => constrain(object, rule),
            (FieldRule::List(min, max, rule), Schema::Array(list)) => {
                (list.min_items, list.max_items) = (Some(min).filter(|min| *min > 0), Some(max));
                let ArrayItems::RefOrSchema(item) = &mut list.items else { return };
                self.apply(*rule, item);
            }
            (rule, Schema::OneOf(one)) => {
                one.items.iter_mut().for_each(|item| self.apply(rule, item));
            }
            (_, Schema::Array(_) | Schema::AllOf(_) | Schema::AnyOf(_) | _) => {}
        }
    }

    /// Registers a set of values under a name, and returns a reference to it.
    fn set(&mut self, name: &str, values: Vec<&str>, nullable: bool) -> RefOr<Schema> {
        let mut set = Object::with_type(Type::String);
        set.enum_values = Some(values.into_iter().map(Into::into).collect());
        self.enums.insert(name.into(), Schema::Object(set).into());
        let named = Ref::from_schema_name(name);
        if !nullable {
            return named.into();
        }
        OneOfBuilder::new().item(Object::with_type(Type::Null)).item(named).into()
    }
}

/// A value that readers treat as absent (null, an empty text) is no default that a client should
/// send.
fn forget_default(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::Ref(named) => named.default = None,
        RefOr::T(Schema::Object(object)) => object.default = None,
        RefOr::T(Schema::Array(list)) => list.default = None,
        RefOr::T(Schema::OneOf(one)) => one.default = None,
        RefOr::T(_) => {}
    }
}

fn is_text(object: &Object) -> bool {
    of_type(&object.schema_type, &Type::String)
}

pub(super) fn name_of(named: &Ref) -> &str {
    named.ref_location.rsplit('/').next().unwrap_or_default()
}

/// Merges "null or a plain type" into one schema with two types.
fn or_null(items: &[RefOr<Schema>]) -> Option<RefOr<Schema>> {
    let [RefOr::T(Schema::Object(one)), RefOr::T(Schema::Object(other))] = items else {
        return None;
    };
    let is_null = |object: &Object| object.schema_type == SchemaType::Type(Type::Null);
    let mut plain = match (is_null(one), is_null(other)) {
        (true, false) => other.clone(),
        (false, true) => one.clone(),
        (true, true) | (false, false) => return None,
    };
    plain.schema_type = match plain.schema_type {
        SchemaType::Type(kind) => SchemaType::Array(vec![kind, Type::Null]),
        several @ (SchemaType::Array(_) | SchemaType::AnyValue) => several,
    };
    Some(Schema::Object(plain).into())
}

/// Adds a rule to a text or a number.
pub(super) fn constrain(object: &mut Object, rule: FieldRule) {
    match rule {
        FieldRule::Text(max) if is_text(object) => {
            (object.min_length, object.max_length) = (Some(1), Some(max));
            object.pattern = Some(NO_NUL.into());
        }
        FieldRule::Cut if is_text(object) => object.pattern = Some(NO_NUL.into()),
        FieldRule::Form(form) if is_text(object) => object.pattern = Some(form.into()),
        FieldRule::Span if is_text(object) => object.pattern = Some(SPAN.into()),
        FieldRule::Id if is_text(object) => {
            object.format = Some(SchemaFormat::Custom("uuid".into()));
            object.pattern = Some(UUID.into());
        }
        FieldRule::Time if is_text(object) => {
            object.format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
        }
        FieldRule::Range(min, max) if !is_text(object) => {
            object.minimum = Some(min.into());
            object.maximum = Some(max).filter(|max| *max < i64::MAX).map(Into::into);
        }
        FieldRule::Any
        | FieldRule::Text(_)
        | FieldRule::Cut
        | FieldRule::Form(_)
        | FieldRule::Span
        | FieldRule::Id
        | FieldRule::Time
        | FieldRule::Range(..)
        | FieldRule::List(..)
        | FieldRule::OneOf(..) => {}
    }
}

/// The shape's own description of a field takes precedence over the general meaning of its name.
fn explain(schema: &mut RefOr<Schema>, meaning: &str) {
    if meaning.is_empty() || !description_of(schema).is_empty() {
        return;
    }
    match schema {
        RefOr::Ref(named) => named.description = meaning.into(),
        RefOr::T(Schema::Object(object)) => object.description = Some(meaning.into()),
        RefOr::T(Schema::Array(list)) => list.description = Some(meaning.into()),
        RefOr::T(Schema::OneOf(one)) => one.description = Some(meaning.into()),
        RefOr::T(Schema::AllOf(all)) => all.description = Some(meaning.into()),
        RefOr::T(_) => {}
    }
}

/// The description that a schema already has.
pub(super) fn description_of(schema: &RefOr<Schema>) -> String {
    let description = match schema {
        RefOr::Ref(named) => return named.description.clone(),
        RefOr::T(Schema::Object(object)) => &object.description,
        RefOr::T(Schema::Array(list)) => &list.description,
        RefOr::T(Schema::OneOf(one)) if one.description.is_none() => {
            // A nullable reference has its description beside the name.
            let named =
                |item: &RefOr<Schema>| matches!(item, RefOr::Ref(_)).then(|| description_of(item));
            return one.items.iter().find_map(named).unwrap_or_default();
        }
        RefOr::T(Schema::OneOf(one)) => &one.description,
        RefOr::T(Schema::AllOf(all)) => &all.description,
        RefOr::T(_) => &None,
    };
    description.clone().unwrap_or_default()
}
