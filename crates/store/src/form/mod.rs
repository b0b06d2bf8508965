//! How what is kept looks as bytes, in a file or in a column, and how damage to it is seen.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod body;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod bytes;
pub(crate) mod facet;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod recent;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod seal;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod sheet;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod stored;
