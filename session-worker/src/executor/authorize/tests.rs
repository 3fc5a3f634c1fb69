use protocol::{receipt::Facts, timestamp::Timestamp};
use serde_json::json;

use super::*;
use crate::executor::fixture::{action, recorded, reply};

fn receipt_of(action: &Action) -> Recorded<Receipt> {
    recorded(Receipt {
        action_id: action.action_id,
        began_at: Timestamp(1),
        ended_at: Timestamp(2),
        error: None,
        is_error: false,
        content: action.action_id.to_string(),
        facts: Facts::None,
    })
}

/// A reply of calls of these tools, each with its own input, and the authority that opened it.
fn opened(tools: &[ToolName]) -> (Authority, Vec<Action>) {
    let actions: Vec<Action> =
        tools.iter().enumerate().map(|(n, tool)| action(*tool, &json!({"n": n}))).collect();
    let authority = Authority::default();
    authority.open(&reply(&actions));
    (authority, actions)
}

fn begin(authority: &Authority, action: &Action) -> Begin {
    authority.begin(action.action_id, action.tool, &action.input.value())
}

fn run(authority: &Authority, action: &Action) -> Authorized<Action> {
    match begin(authority, action) {
        Begin::Run(authorized) => authorized,
        other @ (Begin::Done(_) | Begin::Running(_) | Begin::Refused(_)) => {
            panic!("expected to run: {other:?}")
        }
    }
}

fn refusal(begin: Begin) -> Refusal {
    match begin {
        Begin::Refused(refusal) => refusal,
        other @ (Begin::Run(_) | Begin::Done(_) | Begin::Running(_)) => {
            panic!("expected a refusal: {other:?}")
        }
    }
}

#[test]
fn every_state_of_an_action_answers_a_call() {
    let (authority, actions) = opened(&[ToolName::Read, ToolName::Edit, ToolName::Read]);
    let [first, second, third] = actions.as_slice() else { panic!() };
    // Waiting → begun.
    let running = run(&authority, third);
    // Begun → joins.
    assert!(matches!(begin(&authority, third), Begin::Running(_)));
    // Done → its receipt.
    running.settle(receipt_of(third));
    match begin(&authority, third) {
        Begin::Done(receipt) => assert_eq!(receipt.get().action_id, third.action_id),
        other @ (Begin::Run(_) | Begin::Running(_) | Begin::Refused(_)) => panic!("{other:?}"),
    }
    // Begun and dropped → lost, never again.
    drop(run(&authority, second));
    assert_eq!(refusal(begin(&authority, second)), Refusal::Lost(second.action_id));
    // Waiting, and something with an effect behind it has begun → passed over.
    assert_eq!(refusal(begin(&authority, first)), Refusal::PassedOver(first.action_id));
}

#[test]
fn only_the_recorded_call_runs() {
    let (authority, actions) = opened(&[ToolName::Read]);
    let one = &actions[0];
    let stranger = ActionId::mint();
    for (call, refused) in [
        ((stranger, ToolName::Read, json!({"n": 0})), Refusal::UnknownAction(stranger)),
        (
            (one.action_id, ToolName::Write, json!({"n": 0})),
            Refusal::OtherTool {
                action_id: one.action_id,
                recorded: ToolName::Read,
                called: ToolName::Write,
            },
        ),
        ((one.action_id, ToolName::Read, json!({"n": 1})), Refusal::OtherInput(one.action_id)),
        ((one.action_id, ToolName::Read, json!({"n": 0, "x": null})), Refusal::OtherInput(one.action_id)),
        ((one.action_id, ToolName::Read, json!({})), Refusal::OtherInput(one.action_id)),
        ((one.action_id, ToolName::Read, json!({"n": u64::MAX})), Refusal::OtherInput(one.action_id)),
    ] {
        assert_eq!(refusal(authority.begin(call.0, call.1, &call.2)), refused);
    }
    // None of these used the action up, and the same value in another spelling is the same input.
    let spelled = serde_json::from_str(r#"{ "n": 0.0 }"#).unwrap();
    assert!(matches!(authority.begin(one.action_id, one.tool, &spelled), Begin::Run(_)));
}

#[test]
fn a_newer_reply_takes_the_place_of_the_older_one() {
    let (authority, old) = opened(&[ToolName::Read]);
    let still_running = run(&authority, &old[0]);
    let new = vec![action(ToolName::Read, &json!({}))];
    authority.open(&reply(&new));
    assert_eq!(refusal(begin(&authority, &old[0])), Refusal::UnknownAction(old[0].action_id));
    assert!(matches!(begin(&authority, &new[0]), Begin::Run(_)));
    still_running.settle(receipt_of(&old[0]));
    assert_eq!(refusal(begin(&Authority::default(), &old[0])), Refusal::UnknownAction(old[0].action_id));
}

#[test]
fn a_reply_delivered_again_opens_nothing_again() {
    let actions = vec![action(ToolName::RunCommand, &json!({}))];
    let authority = Authority::default();
    let reply = reply(&actions);
    authority.open(&reply);
    run(&authority, &actions[0]).settle(receipt_of(&actions[0]));
    authority.open(&reply);
    assert!(matches!(begin(&authority, &actions[0]), Begin::Done(_)));
}

/// Whether `later` waits for `earlier` that runs.
async fn waits(earlier: ToolName, later: ToolName) -> bool {
    let (authority, actions) = opened(&[earlier, later]);
    let first = run(&authority, &actions[0]);
    let second = run(&authority, &actions[1]);
    let mut turn = Box::pin(second.its_turn());
    let waited = futures_util::poll!(&mut turn).is_pending();
    first.settle(receipt_of(&actions[0]));
    if waited {
        turn.await; // it goes on
    }
    waited
}

#[tokio::test(flavor = "current_thread")]
async fn only_neighbours_that_read_overlap() {
    for earlier in ToolName::ALL {
        for later in ToolName::ALL {
            let both_read = earlier.kind() == ToolKind::Reads && later.kind() == ToolKind::Reads;
            assert_eq!(waits(earlier, later).await, !both_read, "{earlier:?} then {later:?}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn what_joined_gets_the_receipt_or_hears_that_there_is_none() {
    let (authority, actions) = opened(&[ToolName::Read, ToolName::Read]);
    for (action, recorded) in [(&actions[0], true), (&actions[1], false)] {
        let running = run(&authority, action);
        let Begin::Running(joined) = begin(&authority, action) else { panic!() };
        let joined = tokio::spawn(joined.receipt());
        tokio::task::yield_now().await;
        if recorded {
            running.settle(receipt_of(action));
        } else {
            drop(running);
        }
        assert_eq!(joined.await.unwrap().map(|r| r.get().action_id), recorded.then_some(action.action_id));
    }
}
