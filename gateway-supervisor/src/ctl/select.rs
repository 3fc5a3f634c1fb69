//! Which session the owner means.

use protocol::{
    failure::{ErrorCode, Failure},
    id::SessionId,
    wire::control::ControlRequest,
};
use serde_json::Value;

use super::{CtlError, client};
use crate::config::Config;

/// As many candidates as a person reads.
const NAMED: usize = 5;

/// The session with this id, or the only one whose id begins so. `ses_` may be left out.
pub(super) fn session(config: &Config, words: &str) -> Result<SessionId, CtlError> {
    match words.parse() {
        Ok(session) => Ok(session),
        Err(_) => among(&client::ask(config, &ControlRequest::Sessions)?, words).map_err(CtlError::Refused),
    }
}

fn among(body: &Value, words: &str) -> Result<SessionId, Failure> {
    let beginning = if words.starts_with("ses_") { words.to_owned() } else { format!("ses_{words}") };
    let ids: Vec<&str> = body["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|session| session["native_session_id"].as_str())
        .filter(|id| !words.is_empty() && id.starts_with(&beginning))
        .collect();
    let refused = |code, message: String| Failure::fixed(code, message, "gatewayctl sessions lists them");
    match ids.as_slice() {
        [] => Err(refused(ErrorCode::SessionNotFound, format!("no session's id begins with {words:?}"))),
        [id] => id.parse().map_err(|e| refused(ErrorCode::Internal, format!("the id {id:?} is {e}"))),
        several => Err(refused(
            ErrorCode::InvalidArgument,
            format!(
                "{} sessions begin with {words:?}: {}",
                several.len(),
                several.iter().take(NAMED).copied().collect::<Vec<_>>().join(" ")
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_beginning_must_mean_one_session() {
        let (one, other) = (SessionId::from_bytes([0x11; 16]), SessionId::from_bytes([0x12; 16]));
        let body = json!({"sessions": [{"native_session_id": one}, {"native_session_id": other}]});
        assert_eq!(among(&body, "ses_11").unwrap(), one);
        assert_eq!(among(&body, "12").unwrap(), other);
        assert_eq!(among(&body, "1").unwrap_err().code, ErrorCode::InvalidArgument);
        for none in ["", "2", "ses_2", "ses"] {
            assert_eq!(among(&body, none).unwrap_err().code, ErrorCode::SessionNotFound, "{none}");
        }
    }
}
