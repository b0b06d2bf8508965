//! THE HTTP DOOR of Consign.
#![forbid(unsafe_code)]

#[cfg_attr(not(test), expect(dead_code, reason = "the routes that ask it come with the door"))]
mod auth;
mod settings;

pub use auth::jwt::{JwtSetupError, KeysError};
pub use settings::{JwksSource, JwtSettings, Limits, Rate, Settings};
