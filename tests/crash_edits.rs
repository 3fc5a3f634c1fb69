//! [T4, L2, L3, L4] A stream of edits while the worker, the supervisor or both are killed at random moments, also in the
//! middle of a recovery: every edit that was acknowledged is there once, every other one at most once, just as
//! `recovered_actions` tells it.
//!
//! `GATEWAY_EDIT_KILLS` sets how many kills, `GATEWAY_CRASH_SEED` repeats a run's choices.

mod client;

use std::{env, thread, time::Duration};

use client::{Stream, Token};
use tests::Victim;

/// Enough to hit each phase; `scripts/bench` runs two thousand.
const KILLS: usize = 24;

/// From a reply to its results it takes some 60 ms; later moments hit the wait for the next turn.
const DURING_A_REPLY_MS: u64 = 120;

/// A session is back within this time, also where its worker has to be started again.
const DURING_A_RECOVERY_MS: u64 = 1_500;

/// After so many kills a session ends and another one goes on: its record is looked at whole.
const KILLS_PER_SESSION: usize = 100;

/// A cheap sequence with no pattern that the gateway's own timing could follow.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn moment(&mut self, latest_ms: u64) -> Duration {
        Duration::from_micros(self.below(latest_ms * 1000))
    }

    fn victim(&mut self) -> Victim {
        Victim::ALL[usize::try_from(self.below(3)).unwrap_or_default()]
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

#[test]
fn whoever_is_killed_whenever_each_edit_happens_once() {
    let kills = number("GATEWAY_EDIT_KILLS").map_or(KILLS, |kills| usize::try_from(kills).unwrap());
    let seed = number("GATEWAY_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    let mut choices = Choices(seed);
    let mut stream = Stream::new();
    let (mut killed, mut sessions, mut edits, mut told) = (0, 0, 0, [0; 3]);
    while killed < kills {
        let mut plan = vec![(choices.moment(DURING_A_REPLY_MS), choices.victim())];
        if choices.below(4) == 0 {
            plan.push((choices.moment(DURING_A_RECOVERY_MS), choices.victim()));
        }
        let tokens: Vec<_> =
            (0..=choices.below(3)).map(|_| Token::new(&mut edits, choices.below(4))).collect();
        killed += plan.len();
        let assassin = stream.assassin();
        let assassin = thread::spawn(move || {
            for (after, victim) in plan {
                thread::sleep(after);
                assassin.strike(victim);
            }
        });
        stream.carry_out(&tokens, &mut told);
        assassin.join().unwrap();
        stream.wake();
        if killed / KILLS_PER_SESSION > sessions {
            sessions += 1;
            stream.renew();
        }
    }
    stream.end();
    let [acknowledged, applied, not_done] = told;
    println!(
        "{killed} kills, {edits} edits: {acknowledged} acknowledged by a result, {applied} told as applied, {not_done} told as not done or never taken, and then done again"
    );
}
