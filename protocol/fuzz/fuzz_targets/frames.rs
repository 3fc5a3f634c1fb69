//! Whatever a peer sends: frames end in messages or in errors, never in a panic, and what is taken can be sent again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::wire::{
    codec,
    frame::{self, FrameError},
    outbox,
    to_supervisor::ToSupervisor,
    to_worker::ToWorker,
};
use serde::{Serialize, de::DeserializeOwned};

fn message<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = codec::decode::<T>(bytes)
        && let Ok(again) = codec::encode(&message)
    {
        assert_eq!(codec::decode::<T>(&again).ok().as_ref(), Some(&message));
    }
}

async fn stream(mut bytes: &[u8]) -> Result<(), FrameError> {
    while let Some(content) = frame::read(&mut bytes).await? {
        message::<ToWorker>(&content);
        message::<ToSupervisor>(&content);
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    message::<ToWorker>(bytes);
    message::<ToSupervisor>(bytes);
    let _ = outbox::decode(bytes);
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() {
        let _ = runtime.block_on(stream(bytes));
    }
});
