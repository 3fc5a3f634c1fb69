//! Keys, order, waits, and refusals.

use protocol::profile::Profile;
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn identical_calls_at_once_have_one_effect() {
    let rig = Rig::new().await;
    let (a, b) = tokio::join!(rig.start("k", "look"), rig.start("k", "look"));
    assert_eq!(a.native_session_id, b.native_session_id);
    assert_eq!(a.recovery_token, b.recovery_token);
    assert!(a.replay != b.replay, "one of the two is the replay");
    let (c, d) = tokio::join!(
        rig.reply(&a, "r", Content::Reads(&["/a"])),
        rig.reply(&a, "r", Content::Reads(&["/a"]))
    );
    let (c, d) = (c.unwrap(), d.unwrap());
    assert!(c.replay != d.replay);
    assert_eq!(stable(&c)["pending_turn"], stable(&d)["pending_turn"]);
    assert_eq!(rig.fakes.started().len(), 1);
    rig.stop(&c, "s").await.unwrap();
}

#[tokio::test]
async fn a_key_with_another_input_is_a_conflict_and_a_refused_call_uses_up_none() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let other = rig.gateway.start(rig.start_input("k", "look elsewhere"), Caller::default()).await;
    assert_eq!(code(other), "idempotency_conflict");
    let turn = born.pending_turn.as_ref().unwrap().turn_id.clone();
    let mut bad = reply_input(&born, &turn, "r", Content::Reads(&["/a"]));
    bad.tool_calls = Some(vec![ToolCall { name: "Write".into(), input: json!({}) }]);
    assert_eq!(code(rig.gateway.reply(bad, Caller::default()).await), "tool_not_allowed");
    assert!(rig.status(&born, 0).await.unwrap().pending_turn.is_some(), "the turn is still open");
    let second = rig.reply(&born, "r", Content::Reads(&["/a"])).await.unwrap();
    assert!(!second.replay);
    let late = |key, content| rig.gateway.reply(reply_input(&born, &turn, key, content), Caller::default());
    assert_eq!(code(late("r", Content::Text("other")).await), "idempotency_conflict");
    assert_eq!(code(late("r2", Content::Text("late")).await), "turn_stale");
    assert_eq!(code(rig.continue_(&second, "k", "again").await), "idempotency_conflict");
    rig.stop(&second, "s").await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_found_in_this_order_session_lease_key_turn() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let turn = born.pending_turn.as_ref().unwrap().turn_id.clone();
    let mut input = reply_input(&born, &turn, "r", Content::Text("x"));
    input.native_session_id = "ses_00000000000000000000000000000000".into();
    assert_eq!(code(rig.gateway.reply(input.clone(), Caller::default()).await), "session_not_found");
    input.native_session_id = "nonsense".into();
    assert_eq!(code(rig.gateway.reply(input.clone(), Caller::default()).await), "session_not_found");
    input.native_session_id.clone_from(&born.native_session_id);
    input.lease_id = "lease_00000000000000000000000000000000".into();
    input.turn_id = "nonsense".into();
    assert_eq!(code(rig.gateway.reply(input.clone(), Caller::default()).await), "lease_stale");
    input.lease_id.clone_from(&born.lease_id);
    assert_eq!(code(rig.gateway.reply(input, Caller::default()).await), "turn_stale");
    let denied = RecoverInput {
        native_session_id: born.native_session_id.clone(),
        recovery_token: "wrong".into(),
        recovery_id: "x".into(),
        wait_seconds: None,
    };
    assert_eq!(code(rig.gateway.recover(denied, Caller::default()).await), "recovery_denied");
    rig.stop(&born, "s").await.unwrap();
}

#[tokio::test]
async fn a_start_that_can_not_be_leaves_no_session() {
    let rig = Rig::new().await;
    let good = || rig.start_input("k", "look");
    let relative = StartInput { working_directory: "work".into(), ..good() };
    let absent = StartInput { working_directory: "/absent/for/sure".into(), ..good() };
    let blank = StartInput { prompt: " ".into(), ..good() };
    let slow = StartInput { wait_seconds: Some(51), ..good() };
    let as_profile = |profile| StartInput { capability_profile: Some(profile), ..good() };
    let writes = StartInput { working_directory: "/".into(), ..as_profile(Profile::DirectWrite) };
    let without_git = as_profile(Profile::WorktreeWrite);
    let delegates =
        StartInput { subagent_policy: Some(protocol::profile::SubagentPolicy::DeepseekExplicit), ..good() };
    for (input, expected, named) in [
        (relative, "invalid_argument", "working_directory"),
        (absent, "invalid_argument", "working_directory"),
        (blank, "invalid_argument", "prompt"),
        (slow, "invalid_argument", "wait_seconds"),
        (writes, "invalid_argument", "working_directory"),
        (without_git, "not_available", "git"),
        (delegates, "invalid_argument", "worktree_write"),
    ] {
        let failure = rig.gateway.start(input, Caller::default()).await.unwrap_err();
        assert_eq!(failure.code.text(), expected);
        assert!(failure.message.contains(named), "{failure}");
    }
    assert!(crate::control::Owner::list(&rig.gateway).await.unwrap().is_empty());
    // The key is still free.
    let born = rig.start("k", "look").await;
    assert!(!born.replay);
    // A replay does not ask the world again.
    let moved = rig.folder.path().join("moved");
    std::fs::rename(rig.work(), &moved).unwrap();
    let input = StartInput { working_directory: born.source_directory.clone(), ..rig_input(&born) };
    assert!(rig.gateway.start(input, Caller::default()).await.unwrap().replay);
    std::fs::rename(&moved, rig.folder.path().join("work")).unwrap();
    rig.stop(&born, "s").await.unwrap();
}

fn rig_input(born: &SessionView) -> StartInput {
    StartInput {
        prompt: "look".into(),
        idempotency_key: "k".into(),
        working_directory: born.source_directory.clone(),
        capability_profile: None,
        subagent_policy: None,
        skill_contexts: None,
        session_label: None,
        wait_seconds: Some(20),
    }
}

#[tokio::test]
async fn a_replay_of_start_shows_its_own_lease_and_says_that_it_was_replaced() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let recovered = rig.recover(&born, "rec").await.unwrap();
    let replay = rig.start("k", "look").await;
    assert!(
        replay.replay && replay.lease_id == born.lease_id && replay.recovery_token == born.recovery_token
    );
    assert!(replay.next.unwrap().contains("native_session_recover"));
    rig.stop(&recovered, "s").await.unwrap();
}

#[tokio::test]
async fn waits_end_with_a_view_when_the_gateway_goes_down_and_the_worker_lives() {
    let mut rig = Rig::new().await;
    let hanging = rig.begin("k", "hang").await;
    let began = Instant::now();
    let waits = rig.status(&hanging, 50);
    let (waited, ()) = tokio::join!(waits, async {
        let mut places = 0;
        while places == 0 {
            tokio::task::yield_now().await;
            places = rig.gateway.handles().iter().map(|handle| handle.waiters().taken()).sum();
        }
        rig.gateway.drain().await;
    });
    assert_eq!(waited.unwrap().native_session_id, hanging.native_session_id);
    assert!(began.elapsed() < Duration::from_secs(40), "the wait did not end early");
    assert_eq!(code(rig.status(&hanging, 0).await), "shutting_down");
    assert!(rig.fakes.started()[0].identity.is_alive());
    rig.restart().await;
    rig.stop(&hanging, "s").await.unwrap();
}

#[tokio::test]
async fn more_waiters_than_places_are_refused_without_an_effect() {
    let rig = Rig::new().await;
    let hanging = rig.begin("k", "hang").await;
    let gone = Caller::default();
    let input = StatusInput {
        native_session_id: hanging.native_session_id.clone(),
        lease_id: hanging.lease_id.clone(),
        wait_seconds: Some(50),
    };
    let waiting: Vec<_> = (0..protocol::limits::WAITERS)
        .map(|_| {
            let (gateway, input, gone) = (rig.gateway.clone(), input.clone(), gone.clone());
            tokio::spawn(async move { gateway.status(input, gone).await })
        })
        .collect();
    let handle = rig.gateway.handles()[0].clone();
    while handle.waiters().taken() < protocol::limits::WAITERS {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(rig.gateway.status(input.clone(), Caller::default()).await), "limit_reached");
    assert!(rig.status(&hanging, 0).await.is_ok(), "looking without waiting needs no place");
    gone.gone.cancel();
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    rig.stop(&hanging, "s").await.unwrap();
}

#[tokio::test]
async fn a_stop_is_taken_however_many_wait() {
    let rig = Rig::new().await;
    let hanging = rig.begin("k", "hang").await;
    let handle = rig.gateway.handles()[0].clone();
    let places: Vec<_> =
        (0..protocol::limits::WAITERS).map(|_| crate::session::wait::Place::take(&handle).unwrap()).collect();
    assert_eq!(rig.stop(&hanging, "s").await.unwrap().status, Status::Stopped);
    drop(places);
}

#[tokio::test]
async fn a_call_that_was_made_before_or_is_refused_renews_nothing() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let second = rig.reply(&born, "r", Content::Reads(&["/a"])).await.unwrap();
    let later = protocol::timestamp::Timestamp::now();
    while protocol::timestamp::Timestamp::now() <= later {
        tokio::task::yield_now().await;
    }
    let turn = born.pending_turn.as_ref().unwrap().turn_id.clone();
    let replied = rig.reply(&born, "r", Content::Reads(&["/a"])).await.unwrap();
    let started = rig.start("k", "look").await;
    let stale = rig.gateway.reply(reply_input(&born, &turn, "r2", Content::Text("x")), Caller::default());
    assert_eq!(code(stale.await), "turn_stale");
    let foreign = SessionView { lease_id: "lease_00000000000000000000000000000000".into(), ..born.clone() };
    assert_eq!(code(rig.status(&foreign, 50).await), "lease_stale");
    let id = born.native_session_id.parse().unwrap();
    let shown = crate::control::Owner::show(&rig.gateway, id).await.unwrap();
    assert!(replied.replay && started.replay);
    for view in [replied, started, shown] {
        assert_eq!(view.lease_expires_at, second.lease_expires_at);
    }
    rig.stop(&second, "s").await.unwrap();
}

#[tokio::test]
async fn who_does_not_hold_the_lease_does_not_keep_it_by_waiting() {
    let rig = Rig::with_lease(Duration::from_secs(3)).await;
    let born = rig.begin("k", "hang").await;
    let foreign = SessionView { lease_id: "lease_00000000000000000000000000000000".into(), ..born.clone() };
    let wrong = RecoverInput {
        native_session_id: born.native_session_id.clone(),
        recovery_token: "0".repeat(64),
        recovery_id: "x".into(),
        wait_seconds: Some(50),
    };
    let knocking = async {
        loop {
            assert_eq!(code(rig.status(&foreign, 50).await), "lease_stale");
            assert_eq!(code(rig.gateway.recover(wrong.clone(), Caller::default()).await), "recovery_denied");
        }
    };
    tokio::select! {
        _ = rig.until(&born, Status::LeaseExpired) => {}
        () = knocking => {}
    }
    let id = born.native_session_id.parse().unwrap();
    crate::control::Owner::stop_by_owner(&rig.gateway, id, None).await.unwrap();
}

#[tokio::test]
async fn each_stop_has_a_key_of_its_own_and_the_first_one_stays_the_reason() {
    let mut rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let input = |key: &str, reason: &str| StopInput {
        native_session_id: born.native_session_id.clone(),
        lease_id: born.lease_id.clone(),
        request_id: key.into(),
        reason: Some(reason.into()),
    };
    for round in [false, true] {
        for (key, reason) in [("s", "first"), ("t", "second")] {
            let stopped = rig.gateway.stop(input(key, reason), Caller::default()).await.unwrap();
            assert_eq!((stopped.status, stopped.replay), (Status::Stopped, round), "{key}");
            assert_eq!(stopped.stop_request.unwrap().reason.as_deref(), Some("first"));
            let other = rig.gateway.stop(input(key, "another"), Caller::default()).await;
            assert_eq!(code(other), "idempotency_conflict");
        }
        rig.restart().await;
    }
}

#[tokio::test]
async fn renewing_the_lease_is_no_change() {
    let rig = Rig::with_lease(Duration::from_secs(3)).await;
    let born = rig.start("k", "look").await;
    // Longer than a quarter of the lease, so that the renewal is recorded.
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut now = rig.status(&born, 0).await.unwrap();
    while now.lease_expires_at == born.lease_expires_at || Instant::now() < deadline - Duration::from_secs(8)
    {
        now = rig.status(&born, 0).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(now.revision, born.revision);
    rig.stop(&born, "s").await.unwrap();
}
