//! One sub-session from its start to the last process of its cage.
//!
//! Invariant: when [`run`] returns nothing of it runs, and every action of it has its outcome.

use std::{path::Path, time::Duration};

use protocol::{
    crash,
    id::{ClaudeSessionId, SubsessionId},
    profile::{Profile, SubagentPolicy},
    secret::{Secret, Token},
    subagent::{Route, SubsessionEnd, SubsessionState, Tier},
    tool::ToolName,
};
use sandbox_profiles::{
    Network,
    launch::{ClaudeCage, Helper},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Delegates,
    forward::{Destination, Forward},
    key,
};
use crate::{
    claude::{
        arguments::{Settings, arguments, environment},
        child::{self, Claude, Program},
        endpoint::ModelEndpoint,
        events::{RunEnd, Said},
        home::{Home, Start},
    },
    executor::{delegated::Delegated, endpoint::Endpoint, tools::Stop},
    link::{INBOX, recorder::Recorder},
    server::{self, Model, Routes},
};

/// A task and whom it is given to.
pub(super) struct Task {
    pub(super) id: SubsessionId,
    pub(super) tier: Tier,
    pub(super) text: String,
}

/// A sub-session that is up.
struct Running {
    claude: Claude,
    events: mpsc::Receiver<child::Event>,
    troubles: mpsc::UnboundedReceiver<String>,
    forward: Forward,
    hands: Delegated,
    stop: Stop,
    serving: JoinHandle<()>,
}

/// Runs a sub-session until nothing of it is left. `up` is answered once it is at work, and dropped where it does not come up.
pub(super) async fn run(
    delegates: &Delegates,
    task: Task,
    (recorder, stop, up): (&Recorder, CancellationToken, oneshot::Sender<()>),
) -> SubsessionEnd {
    let limit = Duration::from_secs(delegates.0.delegation.seconds);
    let (id, text) = (task.id, task.text.clone());
    let mut running = match start(delegates, &task, recorder) {
        Ok(running) => running,
        Err(reason) => return ended(SubsessionState::Failed, Some(reason), None, 0),
    };
    crash::point("worker-subsession-started");
    delegates.at_work(id);
    running.claude.prompt(text);
    // Nobody may be waiting.
    let _ = up.send(());
    let (state, reason, answer) = tokio::select! {
        ended = running.until_it_ends() => ended,
        () = stop.cancelled() => (SubsessionState::Stopped, Some("it was stopped".to_owned()), None),
        () = tokio::time::sleep(limit) => {
            let why = format!("its time of {} s was over", limit.as_secs());
            (SubsessionState::Failed, Some(why), None)
        }
    };
    crash::point("worker-subsession-over");
    running.claude.end().await;
    crash::point("worker-subsession-tree-gone");
    running.stop.raise();
    running.hands.close().await;
    running.serving.abort();
    ended(state, reason, answer, running.forward.sent())
}

const fn ended(
    state: SubsessionState,
    reason: Option<String>,
    text: Option<String>,
    turns: u32,
) -> SubsessionEnd {
    SubsessionEnd { state, reason, text, turns }
}

type End = (SubsessionState, Option<String>, Option<String>);

impl Running {
    async fn until_it_ends(&mut self) -> End {
        let failed = |why: String| (SubsessionState::Failed, Some(why), None);
        loop {
            let event = tokio::select! {
                biased;
                Some(why) = self.troubles.recv() => return failed(why),
                event = self.events.recv() => event,
            };
            match event {
                Some(child::Event::Said(Said::Ready { .. })) => {}
                Some(child::Event::Said(Said::WithoutTools)) => {
                    return failed("its program came up without the gateway's tools".to_owned());
                }
                Some(child::Event::Said(Said::Result { end, text })) => {
                    if let Ok(why) = self.troubles.try_recv() {
                        return failed(why);
                    }
                    return match end {
                        RunEnd::Fine => (SubsessionState::Finished, None, Some(text)),
                        RunEnd::Error(why) => {
                            failed(format!("its program ended with an error: {}", public(&why)))
                        }
                    };
                }
                Some(child::Event::Gone(how)) => {
                    return failed(format!("its program ended by itself: {}", public(&how)));
                }
                None => return failed("its program can't be heard any more".to_owned()),
            }
        }
    }
}

/// What may be shown of a program's words: no paths, one line, bounded.
fn public(words: &str) -> String {
    let shown = words.split_whitespace().map(|word| if word.contains('/') { "<path>" } else { word });
    shown.collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Starts everything. The error is a public sentence.
fn start(delegates: &Delegates, task: &Task, recorder: &Recorder) -> Result<Running, String> {
    let delegation = &delegates.0.delegation;
    let key = key::read(delegation.key_file.as_deref())?;
    let folder = delegates.0.directory.join("subsessions").join(task.id.to_string());
    let model = match task.tier.route() {
        Route::Flash => &delegation.flash,
        Route::Pro => &delegation.pro,
    };
    let destination = Destination {
        url: delegation.url.clone(),
        model: model.clone(),
        key,
        authorities: delegation.ca_file.as_deref(),
        turns: delegation.turns,
    };
    let (model_secret, tools_secret) = (token()?, token()?);
    let (forward, troubles) = Forward::new(model_secret.clone(), destination)?;
    let walls =
        |error: &dyn std::fmt::Display| format!("building the walls failed: {}", public(&error.to_string()));
    let helper = Helper::this_program().map_err(|error| walls(&error))?;
    let (cage, listener) =
        ClaudeCage::open(&helper, Network::LoopbackListener { port: 0 }).map_err(|error| walls(&error))?;
    let address = listener.local_addr().map_err(|error| walls(&error))?;
    let endpoint = ModelEndpoint::verify(&format!("http://{address}")).map_err(|error| error.to_string())?;
    let stop = Stop::default();
    let program = program(&folder, &delegation.program, (&endpoint, &model_secret, &tools_secret))
        .map_err(|error| format!("preparing its folder failed: {}", error.kind()))?;
    let tools = (delegates.0.make_tools)(&folder, stop.clone()).map_err(|why| public(&why))?;
    let counting = forward.clone();
    let watching = (delegates.clone(), task.id);
    let tools = tools.telling(move |receipt| watching.0.wrote(watching.1, &receipt.facts));
    let hands = Delegated::new(recorder.clone(), tools, move || counting.sent());
    let routes = Routes {
        model: Model::Forward(forward.clone()),
        endpoint: Endpoint::new(tools_secret, &allowed(), hands.clone()),
    };
    let serving = tokio::spawn(async move {
        if let Err(error) = server::serve(listener, routes).await {
            tracing::error!(%error, "a sub-session's port can't be served");
        }
    });
    let (sender, events) = mpsc::channel(INBOX);
    match Claude::start(cage, program, sender) {
        Ok(claude) => Ok(Running { claude, events, troubles, forward, hands, stop, serving }),
        Err(error) => {
            serving.abort();
            Err(format!("starting its program failed: {}", public(&error.to_string())))
        }
    }
}

fn token() -> Result<Token, String> {
    let random = Secret::random().map_err(|_| "the system has no random bytes to give".to_owned())?;
    Ok(random.to_token())
}

/// A sub-session has the tools of the worktree, and delegates nothing.
fn allowed() -> Vec<ToolName> {
    ToolName::allowed(Profile::WorktreeWrite, SubagentPolicy::None)
}

fn program(
    folder: &Path,
    path: &Path,
    (endpoint, model_secret, tools_secret): (&ModelEndpoint, &Token, &Token),
) -> std::io::Result<Program> {
    let home = Home::prepare(folder)?;
    let settings = Settings {
        home: &home,
        endpoint,
        bridge_secret: model_secret,
        mcp_config: home.write_mcp_config(endpoint, tools_secret)?,
        session_id: ClaudeSessionId::mint(),
        start: Start::New,
        model: MODEL,
        tools: &allowed(),
    };
    Ok(Program {
        path: path.to_owned(),
        arguments: arguments(&settings),
        environment: environment(&settings),
        directory: home.work(),
        home: home.root(),
    })
}

/// The name under which the program knows its model; the real one is put in on the way out.
const MODEL: &str = "deepseek-subsession";
