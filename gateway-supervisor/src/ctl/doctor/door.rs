//! Whether the gateway runs, and whether its door opens.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use protocol::wire::control::ControlRequest;
use serde_json::Value;

use super::Finding;
use crate::{
    config::Config,
    ctl::{CtlError, client},
};

/// Loopback answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than the answer of `/healthz` has.
const ANSWER_BYTES: u64 = 4096;

/// What answered at the owner's socket.
pub(super) struct Supervisor(Result<Value, CtlError>);

/// Asks the supervisor how it stands.
pub(super) fn supervisor(config: &Config) -> Supervisor {
    Supervisor(client::ask(config, &ControlRequest::Status))
}

impl Supervisor {
    pub(super) const fn running(&self) -> bool {
        self.0.is_ok()
    }

    pub(super) fn finding(&self) -> Finding {
        const NAME: &str = "gateway";
        match &self.0 {
            Ok(body) => {
                let release = body["version"].as_str().unwrap_or_default();
                let own = env!("CARGO_PKG_VERSION");
                if release == own {
                    return Finding::good(NAME, format!("runs, release {release}"));
                }
                Finding::care(
                    NAME,
                    format!("runs in release {release}, while this program is of release {own}"),
                    "restart the gateway to bring it to this release; sessions go on",
                )
            }
            Err(CtlError::NoSupervisor(_)) => Finding::care(NAME, "does not run", "scripts/run starts it"),
            Err(CtlError::Refused(failure)) => {
                Finding::bad(NAME, failure.message.clone(), failure.next.clone())
            }
        }
    }
}

/// The sessions whose record can't be used, where the gateway runs and has any.
pub(super) fn records(config: &Config, supervisor: &Supervisor) -> Option<Finding> {
    let body = supervisor.running().then(|| client::ask(config, &ControlRequest::Sessions))?.ok()?;
    troubled(&body)
}

fn troubled(body: &Value) -> Option<Finding> {
    let lines: Vec<String> = body["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|line| {
            Some(format!("{}: {}", line["native_session_id"].as_str()?, line["trouble"].as_str()?))
        })
        .collect();
    let first = lines.first()?;
    let more = match lines.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more, in gatewayctl sessions)"),
    };
    Some(Finding::bad(
        "sessions",
        format!("the record of {first}{more}"),
        "mend or restore the file and restart the gateway; the other sessions work meanwhile",
    ))
}

/// Whether the address answers where the gateway runs, or is free where it does not.
pub(super) fn port(config: &Config, supervisor: &Supervisor) -> Finding {
    const NAME: &str = "address";
    let Ok(body) = &supervisor.0 else { return free(NAME, config.listen) };
    let url = body["mcp_url"].as_str().unwrap_or_default();
    let address =
        url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).and_then(|a| a.parse().ok());
    let Some(address) = address else {
        return Finding::bad(NAME, format!("the gateway names {url:?} as its address"), "restart it");
    };
    match healthy(address) {
        Ok(true) => Finding::good(NAME, format!("{url} answers")),
        Ok(false) => {
            Finding::bad(NAME, format!("{url} answers, but not as the gateway does"), "restart the gateway")
        }
        Err(error) => Finding::bad(
            NAME,
            format!("{url} does not answer: {error}"),
            "restart the gateway; its log says more",
        ),
    }
}

fn free(name: &'static str, address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) if address.port() == 0 => Finding::good(name, format!("any free port of {}", address.ip())),
        Ok(_) => Finding::good(name, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::bad(
            name,
            format!("another program listens on {address}"),
            "end that program, or set CLAUDE_TOOLS_LISTEN to another port, such as 127.0.0.1:7381, and tell ChatGPT's connector",
        ),
        Err(error) => Finding::bad(
            name,
            format!("{address} can't be listened on: {error}"),
            "set CLAUDE_TOOLS_LISTEN to 127.0.0.1:7380",
        ),
    }
}

fn healthy(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ctl::doctor::Verdict;

    #[test]
    fn sessions_whose_record_is_damaged_are_named() {
        let line = |id: &str, trouble: Value| json!({"native_session_id": id, "trouble": trouble});
        assert!(
            troubled(&json!({"sessions": [line("ses_1", Value::Null), {"native_session_id": "ses_2"}]}))
                .is_none()
        );
        let body = json!({"sessions": [line("ses_1", Value::Null), line("ses_2", "cut".into()), line("ses_3", "x".into())]});
        let finding = troubled(&body).unwrap();
        assert_eq!(finding.verdict, Verdict::Bad);
        assert!(
            finding.detail.contains("ses_2: cut") && finding.detail.contains("1 more"),
            "{}",
            finding.detail
        );
    }
}
