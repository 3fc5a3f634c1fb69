//! Every event in every state.

use std::fmt::Write;

use super::*;

const RUN: [u8; 16] = [1; 16];
const OTHER: [u8; 16] = [2; 16];

fn states() -> Vec<State> {
    let run = RunId::from_bytes(RUN);
    vec![
        State::Starting(None),
        State::Starting(Some(run)),
        State::Idle(run),
        State::Running(run),
        State::Waiting(run),
        State::Answered(run),
        State::Ending(EndReason::Conflict),
    ]
}

fn events() -> Vec<Event> {
    vec![
        Event::BeginRun(RunId::from_bytes(RUN)),
        Event::BeginRun(RunId::from_bytes(OTHER)),
        Event::TurnOpened,
        Event::Released(Reply::Calls),
        Event::Released(Reply::Final),
        Event::RunEnded(RunEnd::Fine),
        Event::RunEnded(RunEnd::Error("words".into())),
        Event::LaunchFailed("no program".into(), Missing::Program),
        Event::LaunchFailed("no wall".into(), Missing::Wall),
        Event::ClaudeGone("signal 9".into()),
        Event::LeaseOver,
        Event::Stop(StopReason::Stopped),
        Event::Stop(StopReason::LeaseExpired),
        Event::Stop(StopReason::Replaced),
        Event::Conflict,
        Event::Terminated,
    ]
}

fn short(text: &impl std::fmt::Debug) -> String {
    format!("{text:?}")
        .replace(&RunId::from_bytes(RUN).to_string(), "R")
        .replace(&RunId::from_bytes(OTHER).to_string(), "S")
}

#[test]
fn every_event_is_answered_in_every_state() {
    let mut table = String::new();
    for state in states() {
        writeln!(table, "{}", short(&state)).unwrap();
        for event in events() {
            let (next, effects) = step(state.clone(), event.clone());
            if next == state && effects.is_empty() {
                writeln!(table, "    {} -> unchanged", short(&event)).unwrap();
            } else {
                writeln!(table, "    {} -> {} {}", short(&event), short(&next), short(&effects)).unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn an_end_is_final_and_a_run_ends_once() {
    for state in states() {
        for event in events() {
            let (next, effects) = step(state.clone(), event.clone());
            let ends = effects.iter().filter(|effect| matches!(effect, Effect::End)).count();
            let entered = matches!(next, State::Ending(_)) && !matches!(state, State::Ending(_));
            assert_eq!(ends, usize::from(entered), "{state:?} {event:?}");
            if effects.iter().any(|effect| matches!(effect, Effect::EndRun(..))) {
                assert!(matches!(next, State::Idle(_)), "{state:?} {event:?}");
                let (again, effects) = step(next.clone(), event);
                assert_eq!((again, effects), (next, Vec::new()), "the same end again is no end");
            }
        }
    }
}

#[test]
fn only_a_released_final_reply_finishes_a_run() {
    for state in states() {
        for event in events() {
            let (_, effects) = step(state.clone(), event.clone());
            let finished = effects.iter().any(|e| matches!(e, Effect::EndRun(_, RunOutcome::Finished, _)));
            let right = matches!(state, State::Answered(_)) && event == Event::RunEnded(RunEnd::Fine);
            assert_eq!(finished, right, "{state:?} {event:?}");
        }
    }
}
