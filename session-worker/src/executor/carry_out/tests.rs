use protocol::{action::Action, failure::ToolErrorCode, receipt::Facts, wire::to_supervisor::WorkerRecord};
use serde_json::json;

use super::*;
use crate::executor::fixture::{Place, action, reply, text};

fn call(action: &Action) -> Call {
    Call { action_id: action.action_id, tool: action.tool, input: action.input.value() }
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_is_released_with_the_receipt_that_was_recorded() {
    let place = Place::build();
    let file = place.put("a.txt", "one\n");
    let good = action(ToolName::Read, &json!({"file_path": text(&file)}));
    let bad = action(ToolName::Read, &json!({"file_path": text(&place.work("absent"))}));
    let authority = Authority::default();
    authority.open(&reply(&[good.clone(), bad.clone()]));
    let (recorder, mut records) = Recorder::acknowledging();
    let executor = Executor::new(authority, recorder, Tools::new(place.around()));

    let released = executor.call(call(&good)).await.unwrap();
    assert_eq!(WorkerRecord::Receipt(released.get().clone()), records.recv().await.unwrap());
    assert!(!released.get().is_error && matches!(released.get().facts, Facts::Observed(_)));
    // A repeated call runs nothing and records nothing.
    std::fs::write(&file, "two\n").unwrap();
    assert_eq!(executor.call(call(&good)).await.unwrap(), released);

    let failed = executor.call(call(&bad)).await.unwrap();
    assert_eq!(failed.get().error, Some(ToolErrorCode::NotFound));
    assert!(failed.get().is_error);
    assert_eq!(WorkerRecord::Receipt(failed.get().clone()), records.recv().await.unwrap());
    assert!(records.is_empty());
}

#[tokio::test(flavor = "current_thread")]
async fn without_a_record_nothing_is_released_and_nothing_runs_again() {
    let place = Place::build();
    let action = action(ToolName::FindFiles, &json!({}));
    let authority = Authority::default();
    authority.open(&reply(std::slice::from_ref(&action)));
    let (recorder, requests) = Recorder::new();
    drop(requests);
    let executor = Executor::new(authority, recorder, Tools::new(place.around()));
    assert_eq!(executor.call(call(&action)).await, Err(CallRefused::NotRecorded(NotRecorded)));
    assert_eq!(executor.call(call(&action)).await, Err(Refusal::Lost(action.action_id).into()));
}

#[tokio::test(flavor = "current_thread")]
async fn the_work_outlives_its_caller() {
    let place = Place::build();
    let action = action(ToolName::FindFiles, &json!({}));
    let authority = Authority::default();
    authority.open(&reply(std::slice::from_ref(&action)));
    let (recorder, mut requests) = Recorder::new();
    let executor = Executor::new(authority, recorder, Tools::new(place.around()));
    let caller = tokio::spawn({
        let (executor, call) = (executor.clone(), call(&action));
        async move { executor.call(call).await }
    });
    let request = requests.recv().await.unwrap();
    caller.abort();
    let _ = caller.await;
    let joined = executor.call(call(&action));
    let digest = request.what.digest();
    let record = protocol::recorded::RecordId { launch: 1, number: 1 };
    request.done.send(protocol::recorded::Ack::mint(record, digest)).unwrap();
    assert_eq!(joined.await.unwrap().get().action_id, action.action_id);
}

#[tokio::test(flavor = "current_thread")]
async fn an_input_that_is_not_the_tools_is_refused() {
    let place = Place::build();
    let action = action(ToolName::Read, &json!({"file_path": "relative"}));
    let authority = Authority::default();
    authority.open(&reply(std::slice::from_ref(&action)));
    let (recorder, records) = Recorder::acknowledging();
    let executor = Executor::new(authority, recorder, Tools::new(place.around()));
    assert!(matches!(executor.call(call(&action)).await, Err(CallRefused::Input(_))));
    assert!(records.is_empty());
}

/// Eight reads of one reply need each other to end: carried out one after another they would never.
#[tokio::test(flavor = "current_thread")]
async fn reads_of_one_reply_overlap() {
    let place = Place::build();
    let file = text(&place.put("a.txt", "one\n"));
    let actions: Vec<Action> =
        (0..8).map(|n| action(ToolName::Read, &json!({"file_path": file, "offset": n + 1}))).collect();
    let authority = Authority::default();
    authority.open(&reply(&actions));
    let (recorder, mut requests) = Recorder::new();
    let executor = Executor::new(authority, recorder, Tools::new(place.around()));
    let calls: Vec<_> = actions
        .iter()
        .map(|action| {
            let (executor, call) = (executor.clone(), call(action));
            tokio::spawn(async move { executor.call(call).await })
        })
        .collect();
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(requests.recv().await.unwrap()); // none is acknowledged before all are asked for
    }
    for (number, request) in (1..).zip(waiting) {
        let record = protocol::recorded::RecordId { launch: 1, number };
        request.done.send(protocol::recorded::Ack::mint(record, request.what.digest())).unwrap();
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
}
