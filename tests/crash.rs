//! [T4, L2, L4] The supervisor is killed at random moments of a session: nothing acknowledged is lost, nothing happens
//! twice, no turn is lost.
//!
//! `GATEWAY_CRASHES` sets how many kills, `GATEWAY_CRASH_SEED` repeats a run's moments.

use std::{env, fs, thread, time::Duration};

use serde_json::{Value, json};
use tests::{Gateway, Session, key};

/// Enough to hit each phase of a round; `scripts/bench` runs a thousand.
const CRASHES: u64 = 12;

/// A whole tool round takes some 30 ms; later moments hit the wait for the next turn.
const LATEST_MS: u64 = 60;

/// Times that one reply may be sent again before it counts as lost.
const TRIES: usize = 20;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// A cheap sequence with no pattern that the gateway's own timing could follow.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % (LATEST_MS * 1000))
    }
}

#[test]
fn a_supervisor_killed_at_random_loses_and_repeats_nothing() {
    let crashes = number("GATEWAY_CRASHES").unwrap_or(CRASHES);
    let seed = number("GATEWAY_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut moments = Moments(seed);
    let mut gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let first = gateway.runners();
    for round in 0..crashes {
        let file = gateway.work.join(round.to_string());
        fs::write(&file, format!("content of round {round}")).unwrap();
        let turn = session.turn();
        assert_eq!(turn["sequence"], round + 1, "a turn was lost or came twice (seed {seed})");
        let reply = json!({
            "turn_id": turn["turn_id"], "reply_id": key(), "wait_seconds": 20,
            "tool_calls": [{"name": "Read", "input": {"file_path": file}}],
        });
        let (client, arguments) = (gateway.client.clone(), session.arguments(&reply));
        let sent = thread::spawn(move || client.call("native_session_reply_and_wait", &arguments));
        thread::sleep(moments.next());
        gateway.restart();
        let acknowledged = sent.join().unwrap().is_ok();
        let view = send_until_taken(&mut session, &reply);
        assert!(!acknowledged || view["replay"] == true, "an acknowledged reply was forgotten (seed {seed})");
        let results = session.turn()["tool_results"].clone();
        assert_eq!(results.as_array().map(Vec::len), Some(1), "{results} (seed {seed})");
        assert!(
            results[0]["content"].as_str().unwrap().contains(&format!("content of round {round}")),
            "{results}"
        );
    }
    assert_eq!(session.finish("survived"), "survived");
    assert_eq!(gateway.runners(), first, "a process was replaced (seed {seed})");
    assert_eq!(session.view["current_run"]["sequence"], 1);
}

/// Recovers and sends the reply, as a client does that got no answer.
fn send_until_taken(session: &mut Session, reply: &Value) -> Value {
    for _ in 0..TRIES {
        session.recover(&key(), 10).unwrap();
        if let Ok(view) = session.call("native_session_reply_and_wait", reply) {
            return view.clone();
        }
    }
    panic!("the reply was never taken: {reply}")
}
