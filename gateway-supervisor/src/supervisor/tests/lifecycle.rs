//! A session from its start to its end, over restarts of the supervisor.

use super::*;

#[tokio::test]
async fn a_session_from_its_start_to_its_stop() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look around").await;
    assert_eq!((born.status, born.runtime_attached, born.replay), (Status::WaitingForGpt, true, false));
    assert!(born.recovery_token.is_some() && born.terminal == Some(false));
    let turn = born.pending_turn.clone().unwrap();
    assert_eq!((turn.sequence, turn.prompt.as_deref()), (1, Some("look around")));
    assert_eq!(turn.tools.unwrap().iter().map(|tool| tool.name.as_str()).next(), Some("Read"));
    assert!(turn.tool_results.is_none() && turn.recovered_actions.is_none() && turn.tools_same_as.is_none());

    let second = rig.reply(&born, "r1", Content::Reads(&["/a", "/b"])).await.unwrap();
    let turn_two = second.pending_turn.clone().unwrap();
    assert_eq!(turn_two.tools_same_as.as_deref(), Some(turn.turn_id.as_str()));
    assert!(turn_two.tools.is_none() && turn_two.prompt.is_none());
    let contents: Vec<String> =
        turn_two.tool_results.unwrap().into_iter().map(|result| result.content).collect();
    assert_eq!(contents, [r#"read {"file_path":"/a"}"#, r#"read {"file_path":"/b"}"#]);
    assert!(second.recovery_token.is_none());

    let done = rig.reply(&second, "r2", Content::Text("It is there.")).await.unwrap();
    assert_eq!((done.status, done.pending_turn.is_none()), (Status::Idle, true));
    assert_eq!(done.last_result.clone().unwrap().text, "It is there.");

    let again = rig.continue_(&done, "k2", "and now").await.unwrap();
    assert_eq!(again.pending_turn.as_ref().unwrap().prompt.as_deref(), Some("and now"));
    assert_eq!(again.current_run.as_ref().unwrap().sequence, 2);
    assert_eq!(code(rig.continue_(&again, "k3", "too early").await), "busy");
    assert_eq!(rig.fakes.started().len(), 1, "the process was kept");

    let stopped = rig.stop(&again, "s").await.unwrap();
    assert_eq!(
        (stopped.status, stopped.runtime_attached, stopped.terminal),
        (Status::Stopped, false, Some(true))
    );
    assert!(!rig.fakes.started()[0].identity.is_alive());
    assert!(rig.stop(&again, "s").await.unwrap().replay);
    assert_eq!(rig.stop(&again, "another").await.unwrap().status, Status::Stopped);
    assert_eq!(code(rig.continue_(&again, "k4", "x").await), "session_stopped");
    assert_eq!(rig.status(&again, 0).await.unwrap().status, Status::Stopped);
}

#[tokio::test]
async fn a_session_on_its_way_counts_as_one_that_holds_processes() {
    let rig = Rig::new().await;
    let begun = rig.begin("k", "look").await;
    assert!(begun.runtime_attached, "{:?}", begun.status);
    let up = rig.status(&begun, 20).await.unwrap();
    let done = rig.reply(&up, "r", Content::Text("Done.")).await.unwrap();
    assert!(done.runtime_attached);
    assert!(!rig.stop(&done, "s").await.unwrap().runtime_attached);
}

#[tokio::test]
async fn a_restart_finds_the_worker_and_the_open_turn_again() {
    let mut rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let second = rig.reply(&born, "r1", Content::Reads(&["/a"])).await.unwrap();
    rig.restart().await;
    let back = rig.status(&second, 0).await.unwrap();
    assert_eq!(stable(&back), stable(&second), "the restart is not to be seen");
    let recovered = rig.recover(&born, "rec").await.unwrap();
    assert_ne!(recovered.lease_id, second.lease_id);
    assert_eq!(code(rig.status(&second, 0).await), "lease_stale");
    let replay = rig.recover(&born, "rec").await.unwrap();
    assert!(replay.replay && replay.lease_id == recovered.lease_id);
    // The reply of before the restart is still known, with the new lease.
    let turn = born.pending_turn.as_ref().unwrap().turn_id.clone();
    let input = reply_input(&recovered, &turn, "r1", Content::Reads(&["/a"]));
    assert!(rig.gateway.reply(input, Caller::default()).await.unwrap().replay);
    let done = rig.reply(&recovered, "r2", Content::Text("end")).await.unwrap();
    assert_eq!(done.last_result.unwrap().text, "end");
    assert_eq!(rig.fakes.started()[0].begun.lock().unwrap().len(), 1);
    assert_eq!(rig.fakes.started()[0].released.lock().unwrap().len(), 2, "no reply was released twice");
    rig.stop(&recovered, "s").await.unwrap();
}

#[tokio::test]
async fn what_was_stopped_or_idle_is_the_same_after_a_restart() {
    let mut rig = Rig::new().await;
    let idle = rig.start("a", "look").await;
    let idle = rig.reply(&idle, "r", Content::Text("done")).await.unwrap();
    let ended = rig.begin("b", "hang").await;
    let ended = rig.stop(&ended, "s").await.unwrap();
    rig.restart().await;
    assert_eq!(stable(&rig.status(&idle, 0).await.unwrap()), stable(&idle));
    assert_eq!(stable(&rig.status(&ended, 0).await.unwrap()), stable(&ended));
    assert!(rig.stop(&ended, "s").await.unwrap().replay);
    let lines = crate::control::Owner::list(&rig.gateway).await.unwrap();
    assert_eq!(lines.len(), 2);
    rig.stop(&idle, "s").await.unwrap();
}

#[tokio::test]
async fn the_owner_stops_a_session_in_every_state() {
    use crate::control::Owner;
    let mut rig = Rig::new().await;
    let waiting = rig.start("a", "look").await;
    let starting = rig.begin("b", "hang").await;
    let idle = rig.start("c", "look").await;
    let idle = rig.reply(&idle, "r", Content::Text("done")).await.unwrap();
    let lost = rig.start("d", "look").await;
    rig.fakes.kill();
    rig.until(&lost, Status::Idle).await;
    rig.restart().await;
    for view in [&waiting, &starting, &idle, &lost] {
        let id = view.native_session_id.parse().unwrap();
        let stopped = rig.gateway.stop_by_owner(id, Some("enough".into())).await.unwrap();
        assert_eq!(stopped.status, Status::Stopped);
        assert_eq!(stopped.stop_request.unwrap().reason.as_deref(), Some("enough"));
        assert_eq!(rig.gateway.stop_by_owner(id, None).await.unwrap().status, Status::Stopped);
    }
    assert!(rig.fakes.started().iter().all(|worker| !worker.identity.is_alive()));
}

#[tokio::test]
async fn a_session_whose_record_is_damaged_is_listed_with_what_is_wrong() {
    use crate::control::Owner;
    let mut rig = Rig::new().await;
    let ended = rig.begin("a", "hang").await;
    let ended = rig.stop(&ended, "s").await.unwrap();
    let other = rig.start("b", "look").await;
    let journal = rig.folder.path().join("state/sessions").join(&ended.native_session_id).join("journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&journal, bytes).unwrap();
    rig.restart().await;
    let lines = rig.gateway.list().await.unwrap();
    let line = |id: &str| lines.iter().find(|line| line.native_session_id == id).unwrap();
    let damaged = line(&ended.native_session_id);
    assert_eq!((damaged.status, damaged.runtime_attached), (Status::Failed, false));
    assert!(damaged.trouble.as_ref().unwrap().contains("record"), "{:?}", damaged.trouble);
    assert_eq!(code(rig.status(&ended, 0).await), "ledger_unavailable");
    assert!(line(&other.native_session_id).trouble.is_none());
    rig.stop(&other, "s2").await.unwrap();
}
