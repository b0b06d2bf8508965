//! How a route is told of: one constant for each, beside its row in the table of routes.

use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};
use wire::Rule;

/// What a route does. Who may use it, and what any route of its kind may answer, is not repeated here.
#[derive(Debug)]
pub(crate) struct Doc {
    /// The name of the function in a generated client.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    /// A few words.
    pub(crate) title: &'static str,
    /// What else is worth knowing.
    pub(crate) about: &'static str,
    /// Its parameters, beside those of its path.
    pub(crate) takes: &'static [Param],
    pub(crate) body: Option<Body>,
    /// What it answers when all is well.
    pub(crate) answers: &'static [Answer],
    /// Its reasons to say no, beside those that all have.
    pub(crate) codes: &'static [&'static str],
    /// What can be asked next, about the job that its answer names.
    pub(crate) leads_to: &'static [&'static str],
}

impl Doc {
    pub(crate) const fn new(id: &'static str, tag: &'static str, title: &'static str) -> Self {
        let (about, takes, codes, leads_to) = ("", &[], &[], &[]);
        Doc { id, tag, title, about, takes, body: None, answers: &[], codes, leads_to }
    }
}

/// A parameter of the query or a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) meaning: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Query,
    Header,
}

/// What a parameter, or a header of an answer, is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text(Rule),
    Number(i64, i64),
    Flag,
}

impl Param {
    pub(crate) const fn query(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Param { name, place: Place::Query, kind, meaning }
    }

    pub(crate) const fn header(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Param { name, place: Place::Header, kind, meaning }
    }
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) shape: Shape,
    /// Whether it may be left out.
    pub(crate) optional: bool,
    /// Whether it sets something, and takes no field that is not known.
    pub(crate) is_setting: bool,
    pub(crate) example: &'static str,
}

impl Body {
    pub(crate) const fn of<T: ToSchema>(example: &'static str) -> Self {
        Body { shape: Shape::of::<T>(), optional: false, is_setting: false, example }
    }

    pub(crate) const fn setting<T: ToSchema>(example: &'static str) -> Self {
        Body { is_setting: true, ..Body::of::<T>(example) }
    }
}

/// One good answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) meaning: &'static str,
    pub(crate) forms: &'static [Form],
    /// Its headers, beside those that all answers have.
    pub(crate) headers: &'static [Header],
}

impl Answer {
    pub(crate) const fn new(
        status: u16,
        meaning: &'static str,
        forms: &'static [Form],
        headers: &'static [Header],
    ) -> Self {
        Answer { status, meaning, forms, headers }
    }
}

/// One form of an answer.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) media: &'static str,
    /// What JSON holds; other forms are text.
    pub(crate) shape: Option<Shape>,
    pub(crate) example: &'static str,
}

impl Form {
    pub(crate) const fn json<T: ToSchema>(example: &'static str) -> Self {
        Form { media: "application/json", shape: Some(Shape::of::<T>()), example }
    }

    /// A page of a list of these.
    pub(crate) const fn page<T: ToSchema>(example: &'static str) -> Self {
        let shape = Shape { is_page: true, ..Shape::of::<T>() };
        Form { media: "application/json", shape: Some(shape), example }
    }

    pub(crate) const fn text(media: &'static str, example: &'static str) -> Self {
        Form { media, shape: None, example }
    }
}

/// A header of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) meaning: &'static str,
}

/// A shape of the wire, by what makes its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: fn() -> Cow<'static, str>,
    pub(crate) schema: fn() -> RefOr<Schema>,
    /// The schemas that it names.
    pub(crate) within: fn(&mut Vec<(String, RefOr<Schema>)>),
    pub(crate) is_page: bool,
}

impl Shape {
    pub(crate) const fn of<T: ToSchema>() -> Self {
        Shape {
            name: T::name,
            schema: <T as PartialSchema>::schema,
            within: T::schemas,
            is_page: false,
        }
    }
}
