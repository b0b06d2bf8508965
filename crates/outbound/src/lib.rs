//! THE WAY OUT of Consign: the one HTTP client that may leave the house.
#![forbid(unsafe_code)]
