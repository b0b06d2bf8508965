//! The documentation of a route: one constant for each, beside its row in the table of routes.

use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};
use wire::FieldRule;

/// What a route does. Its access and the answers that all its kind share are not repeated here.
#[derive(Debug)]
pub(crate) struct Doc {
    /// The name of the function in a generated client.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) title: &'static str,
    /// More detail.
    pub(crate) about: &'static str,
    /// Its parameters, besides those of its path.
    pub(crate) parameters: &'static [Param],
    pub(crate) body: Option<Body>,
    /// Its successful answers.
    pub(crate) answers: &'static [ResponseDoc],
    /// Its error codes, besides those that all routes share.
    pub(crate) codes: &'static [&'static str],
}

impl Doc {
    pub(crate) const fn new(id: &'static str, tag: &'static str, title: &'static str) -> Self {
        Doc { id, tag, title, about: "", parameters: &[], body: None, answers: &[], codes: &[] }
    }
}

/// A parameter of the query, or a header of a request or an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) location: ParamLocation,
    pub(crate) kind: Kind,
    pub(crate) meaning: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamLocation {
    Query,
    Header,
}

/// The kind of a parameter's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text(FieldRule),
    Number(i64, i64),
    Flag,
}

impl Param {
    pub(crate) const fn query(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Param { name, location: ParamLocation::Query, kind, meaning }
    }

    pub(crate) const fn header(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Param { name, location: ParamLocation::Header, kind, meaning }
    }

    /// A header that may hold any text.
    pub(crate) const fn text(name: &'static str, meaning: &'static str) -> Self {
        Param::header(name, Kind::Text(FieldRule::Any), meaning)
    }
}

/// A request body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) shape: Shape,
    /// Whether it may be left out.
    pub(crate) optional: bool,
    /// Whether it sets something, and refuses unknown fields.
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

    pub(crate) const fn optional(self) -> Self {
        Body { optional: true, ..self }
    }
}

/// One successful answer.
#[derive(Debug)]
pub(crate) struct ResponseDoc {
    pub(crate) status: u16,
    pub(crate) meaning: &'static str,
    pub(crate) representation: Option<Representation>,
    /// Whether browsers get it as a page.
    pub(crate) or_page: bool,
    /// Its headers, besides those that all answers have.
    pub(crate) headers: &'static [Param],
}

impl ResponseDoc {
    pub(crate) const fn empty(status: u16, meaning: &'static str) -> Self {
        ResponseDoc { status, meaning, representation: None, or_page: false, headers: &[] }
    }

    pub(crate) const fn json<T: ToSchema>(
        status: u16,
        meaning: &'static str,
        example: &'static str,
    ) -> Self {
        let shape = Some(Shape::of::<T>());
        Representation { media: "application/json", shape, example }.answer(status, meaning)
    }

    pub(crate) const fn ok<T: ToSchema>(meaning: &'static str, example: &'static str) -> Self {
        ResponseDoc::json::<T>(200, meaning, example)
    }

    /// A page of a list; the example is one item of it.
    pub(crate) const fn page<T: ToSchema>(meaning: &'static str, example: &'static str) -> Self {
        let shape = Some(Shape { is_page: true, ..Shape::of::<T>() });
        Representation { media: "application/json", shape, example }.answer(200, meaning)
    }

    pub(crate) const fn text(
        media: &'static str,
        meaning: &'static str,
        example: &'static str,
    ) -> Self {
        Representation { media, shape: None, example }.answer(200, meaning)
    }

    pub(crate) const fn or_page(self) -> Self {
        ResponseDoc { or_page: true, ..self }
    }

    pub(crate) const fn with(self, headers: &'static [Param]) -> Self {
        ResponseDoc { headers, ..self }
    }

    pub(crate) fn representations(&self) -> impl Iterator<Item = Representation> {
        const PAGE: Representation =
            Representation { media: "text/html", shape: None, example: "" };
        self.representation.into_iter().chain(self.or_page.then_some(PAGE))
    }
}

/// One representation of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Representation {
    pub(crate) media: &'static str,
    /// The shape of JSON; other representations are text.
    pub(crate) shape: Option<Shape>,
    pub(crate) example: &'static str,
}

impl Representation {
    const fn answer(self, status: u16, meaning: &'static str) -> ResponseDoc {
        ResponseDoc { representation: Some(self), ..ResponseDoc::empty(status, meaning) }
    }
}

/// A shape of the wire, by the functions that make its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: fn() -> Cow<'static, str>,
    pub(crate) schema: fn() -> RefOr<Schema>,
    /// The schemas that it refers to.
    pub(crate) within: fn(&mut Vec<(String, RefOr<Schema>)>),
    pub(crate) is_page: bool,
}

impl Shape {
    pub(crate) const fn of<T: ToSchema>() -> Self {
        let (name, schema, within) = (T::name, <T as PartialSchema>::schema, T::schemas);
        Shape { name, schema, within, is_page: false }
    }
}
