//! THE HTTP DOOR of Consign.
#![forbid(unsafe_code)]

mod settings;

pub use settings::{JwksSource, JwtSettings, Limits, Rate, Settings};
