//! One question to the supervisor.

use std::{io, time::Duration};

use interprocess::local_socket::tokio::Stream;
use protocol::wire::{
    control::{ControlAnswer, ControlRequest},
    frame::{self, FrameError},
};
use serde_json::Value;

use super::CtlError;
use crate::{
    config::Config,
    control::socket::{self, CONTROL},
};

/// Longer than the supervisor takes for any request.
const PATIENCE: Duration = Duration::from_secs(58);

/// The supervisor's answer.
pub(super) fn ask(config: &Config, request: &ControlRequest) -> Result<Value, CtlError> {
    let broken = |what: &dyn std::fmt::Display| {
        CtlError::failed(
            format!("asking the supervisor failed: {what}"),
            "run gatewayctl doctor, then ask again",
        )
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| broken(&e))?;
    let answer = runtime.block_on(async {
        let mut stream = connect(config).await?;
        tokio::time::timeout(PATIENCE, exchange(&mut stream, request))
            .await
            .map_err(|_| broken(&format!("no answer within {} s", PATIENCE.as_secs())))?
            .map_err(|e| broken(&e))
    })?;
    match answer {
        ControlAnswer::Done { body } => Ok(body),
        ControlAnswer::Refused { failure } => Err(CtlError::Refused(failure)),
    }
}

async fn connect(config: &Config) -> Result<Stream, CtlError> {
    let shown = config.state.display();
    socket::connect(&config.state, CONTROL).await.map_err(|error| {
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            return CtlError::NoSupervisor(format!("no gateway runs with the state directory {shown}."));
        }
        CtlError::failed(
            format!("connecting to the gateway with the state directory {shown} failed: {error}"),
            "run gatewayctl as the user who started the gateway",
        )
    })
}

async fn exchange(stream: &mut Stream, request: &ControlRequest) -> Result<ControlAnswer, FrameError> {
    let bytes = serde_json::to_vec(request).map_err(io::Error::from)?;
    frame::write(stream, &bytes).await?;
    let answer = frame::read(stream).await?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
    Ok(serde_json::from_slice(&answer).map_err(io::Error::from)?)
}
