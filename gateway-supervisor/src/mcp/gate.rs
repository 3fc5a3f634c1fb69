//! Who may come in: judged by the request's head alone, before its body is read.
//!
//! Invariant: nothing of a refused request is executed or remembered.
//! Invariant: the token is compared in constant time, and no answer or log line repeats what was presented.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};

use super::{refusal::Refusal, token::Bearer};

/// Checks the head of a request to `/mcp`.
///
/// # Errors
/// The refusal, in the order: another site's page, no token, another method, another content.
pub(super) fn check(parts: &Parts, bearer: &Bearer) -> Result<(), Refusal> {
    host(parts)?;
    origin(&parts.headers)?;
    authorization(&parts.headers, bearer)?;
    if parts.method != Method::POST {
        return Err(Refusal::http(
            StatusCode::METHOD_NOT_ALLOWED,
            "only POST is served here: there is no transport session to open or delete, and no session is touched",
        ));
    }
    content(&parts.headers)
}

/// DNS rebinding: a page of another site whose name was pointed at 127.0.0.1 still sends its own name.
fn host(parts: &Parts) -> Result<(), Refusal> {
    let mut given = parts.headers.get_all(header::HOST).iter();
    let one = match (given.next(), given.next()) {
        (Some(value), None) => value.to_str().is_ok_and(is_loopback),
        (None, _) | (Some(_), Some(_)) => false,
    };
    if one && parts.uri.host().is_none_or(is_loopback) {
        return Ok(());
    }
    Err(Refusal::http(
        StatusCode::FORBIDDEN,
        "the Host header must name this computer: 127.0.0.1, localhost or [::1]; a proxy in front must set it so",
    ))
}

/// A browser names the page's site. Clients that are no pages send none.
fn origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let own = |value: &HeaderValue| {
        value.to_str().is_ok_and(|origin| {
            let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            origin.is_empty() || site.is_some_and(is_loopback)
        })
    };
    if headers.get_all(header::ORIGIN).iter().all(own) {
        return Ok(());
    }
    Err(Refusal::http(
        StatusCode::FORBIDDEN,
        "requests from pages of other sites are refused (Origin header)",
    ))
}

fn is_loopback(authority: &str) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => authority,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn authorization(headers: &HeaderMap, bearer: &Bearer) -> Result<(), Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let presented = match (given.next(), given.next()) {
        (Some(value), None) => value.as_bytes(),
        (None, _) | (Some(_), Some(_)) => &[],
    };
    let token = match presented.split_at_checked("Bearer ".len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"Bearer ") => token.trim_ascii(),
        Some(_) | None => &[],
    };
    if bearer.matches(token) {
        return Ok(());
    }
    Err(Refusal::http(
        StatusCode::UNAUTHORIZED,
        "the bearer token is missing or wrong: send `Authorization: Bearer` and the content of the gateway's token file",
    ))
}

fn content(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let coded = headers.get_all(header::CONTENT_ENCODING).iter().any(|value| value != "identity");
    if !essence.eq_ignore_ascii_case("application/json") || coded {
        return Err(Refusal::http(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected Content-Type application/json and no Content-Encoding",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_computer_are_loopback() {
        for own in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:7380", "[::1]", "[::1]:7380"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "127.0.0.1.",
            "127.0.0.2",
            "localhost:",
            "localhost:x",
            "user@127.0.0.1",
            "127.0.0.1:80:80",
            "[::ffff:127.0.0.1]",
            "::1",
            "0.0.0.0",
            "localhost/",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
