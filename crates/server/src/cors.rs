//! Cross-origin requests: which pages may call the API from a browser, and what browsers are told.
//!
//! An origin is compared byte by byte with those that are listed. A comparison by prefix or suffix
//! would let in `https://app.example.org.attacker.net`. `Access-Control-Allow-Credentials` is never
//! sent: the API knows no cookies, and a page sends its key or token in `Authorization`.

use crate::routes::ROUTES;
use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};

/// The pages that may call the API from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Only pages of this server itself.
    #[default]
    None,
    /// Pages of these origins.
    Listed(Vec<HeaderValue>),
    /// Pages of every website.
    Every,
}

/// Headers of a request that browsers do not send without asking.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-none-match, last-event-id, prefer, \
     traceparent, x-correlation-id",
);
/// Headers of an answer that a page may read.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("etag, location, retry-after, x-correlation-id");
/// Browsers ask again after an hour. Some cap it at ten minutes or two hours.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("3600");

impl AllowedOrigins {
    /// Reads a list of origins as browsers send them, or `*` alone.
    pub fn parse(origins: &[&str]) -> Result<Self, String> {
        match origins {
            [] => return Ok(AllowedOrigins::None),
            ["*"] => return Ok(AllowedOrigins::Every),
            [..] => {}
        }
        let listed = origins.iter().map(|origin| {
            check_origin(origin).map_err(|problem| format!("`{origin}` {problem}"))?;
            Ok(HeaderValue::from_str(origin).expect("an origin is plain ASCII"))
        });
        listed.collect::<Result<_, String>>().map(AllowedOrigins::Listed)
    }

    /// The value of `Access-Control-Allow-Origin` for a request; `None` where its page may not read
    /// the answer, and where no page asks.
    fn admit(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let (origin, None) = (origins.next()?, origins.next()) else { return None };
        match self {
            AllowedOrigins::None => None,
            AllowedOrigins::Listed(listed) => listed.contains(origin).then(|| origin.clone()),
            AllowedOrigins::Every => Some(HeaderValue::from_static("*")),
        }
    }

    /// What the answer to a request must tell browsers and caches.
    pub(crate) fn of_request(&self, headers: &HeaderMap) -> CorsHeaders {
        let depends_on_origin = match self {
            AllowedOrigins::Listed(_) => headers.contains_key(header::ORIGIN),
            AllowedOrigins::None | AllowedOrigins::Every => false,
        };
        CorsHeaders { admitted: self.admit(headers), depends_on_origin }
    }
}

/// What an answer tells browsers and caches about origins.
pub(crate) struct CorsHeaders {
    admitted: Option<HeaderValue>,
    /// Whether the same request of another origin gets other headers.
    depends_on_origin: bool,
}

impl CorsHeaders {
    /// Answers a browser that asks whether a page may send a request to one of our routes. The
    /// request itself is authorized when it comes.
    pub(crate) fn preflight(&self, request: &Request) -> Option<Response> {
        let asks = request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        self.admitted.as_ref().filter(|_| asks)?;
        let path = request.extensions().get::<MatchedPath>()?;
        let headers = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, methods_of(path.as_str())),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS),
        ];
        Some((StatusCode::NO_CONTENT, headers).into_response())
    }

    /// Adds the headers that every answer has, errors included: a page must be able to read why it
    /// was refused.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        if self.depends_on_origin {
            headers.append(header::VARY, HeaderValue::from_name(header::ORIGIN));
        }
        if let Some(admitted) = self.admitted {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, admitted);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        }
    }
}

fn methods_of(path: &str) -> HeaderValue {
    let methods = ROUTES.iter().filter(|route| route.path == path).map(|route| route.method);
    let methods: Vec<&str> = methods.collect();
    HeaderValue::from_str(&methods.join(", ")).expect("methods are plain ASCII")
}

/// Checks that the text is an origin in the one form in which browsers send it.
fn check_origin(text: &str) -> Result<(), &'static str> {
    const FORM: &str = "must be an origin as browsers send it: https://app.example.org, in lower \
                        case, with a port where it is not the usual one, and no path or slash";
    if text == "*" {
        return Err("must stand alone: it means every website");
    }
    if text == "null" {
        return Err("must name an origin: files and sandboxed frames of any website send `null`");
    }
    let (scheme, authority) = text.split_once("://").ok_or(FORM)?;
    let usual_port = match scheme {
        "https" => "443",
        "http" => "80",
        _ => return Err(FORM),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    };
    let is_port = |port: &str| port != usual_port && port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_in_host =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._[]:".contains(&byte);
    let has_form = !host.is_empty() && host.bytes().all(is_in_host) && port.is_none_or(is_port);
    let is_address = !host.contains([':', '[', ']'])
        || host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    if has_form && is_address { Ok(()) } else { Err(FORM) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(allowed: &AllowedOrigins, origins: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        }
        allowed.admit(&headers).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_listed_origins_are_admitted() {
        let own = "https://app.example.org";
        let allowed = AllowedOrigins::parse(&[own, "http://localhost:3000"]).unwrap();
        assert_eq!(admitted(&allowed, &[own]).as_deref(), Some(own));
        assert_eq!(
            admitted(&allowed, &["http://localhost:3000"]).as_deref(),
            Some("http://localhost:3000")
        );
        for foreign in [
            "https://app.example.org.attacker.net",
            "https://attacker-app.example.org",
            "https://app.example.org:8443",
            "https://app.example.org/",
            "http://app.example.org",
            "https://APP.example.org",
            "https://app.example.orgx",
            "http://localhost:30000",
            "null",
            "",
            "*",
        ] {
            assert_eq!(admitted(&allowed, &[foreign]), None, "{foreign}");
        }
        assert_eq!(admitted(&allowed, &[]), None);
        assert_eq!(admitted(&allowed, &[own, own]), None, "two origins are none");
        assert_eq!(admitted(&AllowedOrigins::None, &[own]), None);
        assert_eq!(admitted(&AllowedOrigins::Every, &["null"]).as_deref(), Some("*"));
        assert_eq!(admitted(&AllowedOrigins::Every, &[]), None);
    }

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for good in [
            "https://app.example.org",
            "https://app.example.org:8443",
            "http://127.0.0.1:5173",
            "http://[::1]:5173",
            "http://localhost",
        ] {
            assert_eq!(check_origin(good), Ok(()), "{good}");
        }
        for bad in [
            "app.example.org",
            "https://app.example.org/",
            "https://App.example.org",
            "https://app.example.org:443",
            "https://app.example.org:0",
            "https://user@app.example.org",
            "https://*.example.org",
            "https://",
            "ftp://app.example.org",
            "http://a:b:1",
            "http://[::1",
            "null",
            "*",
            "",
        ] {
            assert!(check_origin(bad).is_err(), "{bad}");
        }
        assert!(AllowedOrigins::parse(&["*", "https://a.example"]).is_err());
    }
}
