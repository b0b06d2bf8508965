//! The HTTP API of Consign: the whole job contract over HTTP, with authorization on everything.
//!
//! A request passes the [middleware](middleware) (correlation, limits, log line) and
//! [authorization](auth) (who may use this route). Then its handler extracts the input, calls the
//! platform and answers. Every refusal becomes problem details in one place (`error.rs`).
#![forbid(unsafe_code)]

mod api;
mod app_state;
mod auth;
mod body_budget;
mod connections;
mod context;
mod cors;
pub mod data_folder;
mod error;
mod extract;
mod forwarded;
mod listener;
mod metrics;
mod middleware;
mod openapi;
mod routes;
mod serve;
mod settings;
mod waiting;
mod work;

use app_state::AppState;

pub use auth::jwt::{JwtSetupError, KeysError};
pub use cors::AllowedOrigins;
pub use routes::{Access, ROUTES, Route};
pub use serve::{LOCAL_CONNECTIONS_MAX, Listeners, Server, StartError};
pub use settings::{
    AddressShare, ForwardedHeader, JwksSource, JwtSettings, Limits, ProxySettings, Rate, Settings,
};
