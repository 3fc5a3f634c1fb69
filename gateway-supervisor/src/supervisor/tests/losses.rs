//! What is lost, and how it is told.

use protocol::{action::Resolution, session::RunOutcome};

use super::*;

#[tokio::test]
async fn a_worker_that_is_killed_is_not_faked_and_the_next_run_tells_what_became_of_its_actions() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let second = rig.reply(&born, "r1", Content::Reads(&["/a"])).await.unwrap();
    rig.fakes.kill();
    let lost = rig.until(&second, Status::Idle).await;
    assert_eq!(lost.current_run.clone().unwrap().outcome, Some(RunOutcome::Lost));
    assert!(!lost.runtime_attached && lost.pending_turn.is_none() && !lost.recovery_required);
    assert_eq!(
        code(
            rig.gateway
                .reply(
                    reply_input(
                        &second,
                        &second.pending_turn.as_ref().unwrap().turn_id,
                        "r2",
                        Content::Text("late")
                    ),
                    Caller::default()
                )
                .await
        ),
        "turn_stale"
    );
    let next = rig.continue_(&second, "k2", "go on").await.unwrap();
    assert_eq!(next.claude_session_id, born.claude_session_id);
    let actions = next.pending_turn.clone().unwrap().recovered_actions.unwrap();
    assert_eq!(
        (actions.len(), actions[0].tool.as_str(), actions[0].outcome),
        (1, "Read", Resolution::Applied)
    );
    assert!(actions[0].receipt.as_ref().unwrap().contains("/a"));
    let started = rig.fakes.started();
    assert_eq!(started.iter().map(|worker| worker.resume).collect::<Vec<_>>(), [false, true]);
    // Told once, and no more after it was answered.
    let after = rig.reply(&next, "r3", Content::Text("thanks")).await.unwrap();
    let later = rig.continue_(&after, "k3", "more").await.unwrap();
    assert!(later.pending_turn.as_ref().unwrap().recovered_actions.is_none());
    rig.stop(&later, "s").await.unwrap();
}

#[tokio::test]
async fn an_action_that_was_never_begun_says_so() {
    let rig = Rig::new().await;
    let born = rig.start("k", "die with the reply").await;
    let lost = rig.reply(&born, "r1", Content::Reads(&["/a", "/b"])).await.unwrap();
    assert_eq!(lost.status, Status::Idle);
    let next = rig.continue_(&lost, "k2", "go on").await.unwrap();
    let actions = next.pending_turn.clone().unwrap().recovered_actions.unwrap();
    assert_eq!(actions.iter().map(|action| action.outcome).collect::<Vec<_>>(), [Resolution::NotStarted; 2]);
    rig.stop(&next, "s").await.unwrap();
}

#[tokio::test]
async fn a_final_answer_that_is_recorded_is_the_result_even_if_its_worker_dies_with_it() {
    let rig = Rig::new().await;
    let born = rig.start("k", "die with the reply").await;
    let done = rig.reply(&born, "r1", Content::Text("final words")).await.unwrap();
    assert_eq!(done.status, Status::Idle);
    assert_eq!(done.last_result.unwrap().text, "final words");
}

#[tokio::test]
async fn a_worker_that_dies_while_the_supervisor_is_away_is_noticed_at_the_start() {
    let mut rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    rig.gateway.drain().await;
    rig.fakes.kill();
    rig.restart().await;
    let now = rig.status(&born, 0).await.unwrap();
    assert_eq!((now.status, now.runtime_attached), (Status::Idle, false));
    assert_eq!(now.current_run.unwrap().outcome, Some(RunOutcome::Lost));
}

#[tokio::test]
async fn a_start_that_fails_says_why_without_paths_and_can_be_tried_again() {
    let rig = Rig::new().await;
    let failed = rig.start("k", "fail").await;
    assert_eq!((failed.status, failed.terminal), (Status::Failed, Some(false)));
    let error = failed.launch_error.clone().unwrap();
    assert_eq!(error.code.text(), "launch_failed");
    assert!(!error.message.contains("/secret"), "{}", error.message);
    assert!(
        failed.last_result.is_none() && failed.next.as_ref().unwrap().contains("native_session_continue")
    );
    let mended = rig.continue_(&failed, "k2", "look").await.unwrap();
    assert_eq!((mended.status, mended.launch_error.is_none()), (Status::WaitingForGpt, true));
    rig.stop(&mended, "s").await.unwrap();
}

#[tokio::test]
async fn a_lease_that_runs_out_takes_the_worker_with_it_and_recover_brings_the_session_back() {
    let rig = Rig::with_lease(Duration::from_secs(1)).await;
    let born = rig.start("k", "look").await;
    // A waiting call keeps the lease for longer than it holds.
    let hanging = rig.begin("h", "hang").await;
    assert_eq!(rig.status(&hanging, 2).await.unwrap().status, Status::Starting);
    let expired = rig.until(&born, Status::LeaseExpired).await;
    assert!(expired.pending_turn.is_none());
    let refused = rig.status(&born, 5).await.unwrap_err();
    assert_eq!(refused.code.text(), "lease_expired");
    assert!(refused.next.contains("native_session_recover"));
    let back = rig.recover(&born, "rec").await.unwrap();
    assert_eq!((back.status, back.runtime_attached), (Status::Idle, false));
    assert_eq!(back.current_run.clone().unwrap().outcome, Some(RunOutcome::Lost));
    assert!(!rig.fakes.started()[0].identity.is_alive());
    let again = rig.continue_(&back, "k2", "go on").await.unwrap();
    assert_eq!(again.status, Status::WaitingForGpt);
    rig.stop(&again, "s").await.unwrap();
    let hung = rig.recover(&hanging, "rec").await.unwrap();
    rig.stop(&hung, "s").await.unwrap();
}

#[tokio::test]
async fn after_the_root_was_replaced_only_looking_and_stopping_remain() {
    let rig = Rig::new().await;
    let born = rig.start("k", "look").await;
    let idle = rig.reply(&born, "r", Content::Text("done")).await.unwrap();
    let kept = rig.folder.path().join("kept");
    std::fs::rename(rig.work(), &kept).unwrap();
    std::fs::create_dir(rig.folder.path().join("work")).unwrap();
    assert_eq!(code(rig.continue_(&idle, "k2", "go on").await), "recovery_required");
    let view = rig.status(&idle, 5).await.unwrap();
    assert_eq!((view.status, view.recovery_required), (Status::RecoveryRequired, true));
    let still = rig.recover(&born, "rec").await.unwrap();
    assert_eq!(still.status, Status::RecoveryRequired);
    // The original comes back: a recovery sees it.
    std::fs::remove_dir(rig.folder.path().join("work")).unwrap();
    std::fs::rename(&kept, rig.folder.path().join("work")).unwrap();
    let back = rig.recover(&born, "rec2").await.unwrap();
    assert_eq!(back.status, Status::Idle);
    rig.stop(&back, "s").await.unwrap();
}

#[tokio::test]
async fn a_start_that_the_supervisors_end_cut_short_is_made_again() {
    let mut rig = Rig::new().await;
    rig.fakes.cut_short();
    let born = rig.begin("k", "look").await;
    assert_eq!(born.status, Status::Starting);
    rig.restart().await;
    let back = rig.start("k", "look").await;
    assert!(back.replay && back.launch_error.is_none(), "{:?}", back.launch_error);
    assert_eq!((back.status, back.current_run.clone().unwrap().sequence), (Status::WaitingForGpt, 1));
    assert!(back.pending_turn.as_ref().unwrap().recovered_actions.is_none());
    let started = rig.fakes.started();
    assert_eq!((started.len(), started[0].begun.lock().unwrap().len()), (1, 1));
    rig.stop(&back, "s").await.unwrap();
}

#[tokio::test]
async fn a_start_that_was_cut_short_ends_with_its_session() {
    let mut rig = Rig::new().await;
    rig.fakes.cut_short();
    let born = rig.begin("k", "look").await;
    let (stopped, ()) = tokio::join!(rig.stop(&born, "s"), async { rig.gateway.drain().await });
    drop(stopped);
    rig.restart().await;
    assert_eq!(rig.stop(&born, "s").await.unwrap().status, Status::Stopped);
    assert!(rig.fakes.started().is_empty());
}
