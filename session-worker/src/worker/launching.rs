//! The worker's beginning: link, bridge, executor, lease and Claude Code are set up for the loop.
//!
//! Invariant: the link stands first, so that whatever fails after it can be told.

use std::{io, net::TcpListener, path::Path};

use protocol::{
    limits::VERSIONS_BYTES,
    process_identity::ProcessIdentity,
    secret::{Secret, Token},
    tool::ToolName,
    wire::{ground::Ground, launch::WorkerLaunch},
};
use sandbox_profiles::{
    Network, Protected, WallError,
    launch::{ClaudeCage, Helper},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{Arrivals, ComingUp, Worker};
use crate::{
    bridge::Bridge,
    claude::{
        arguments::{MODEL, Settings, arguments, environment},
        child::{self, Claude, Program},
        endpoint::ModelEndpoint,
        home::Home,
    },
    executor::{
        atomic_write::NewModes,
        authorize::Authority,
        carry_out::Executor,
        endpoint::Endpoint,
        observed::Observations,
        run_command::{CommandSettings, Commands},
        tools::{Stop, Surroundings, Tools},
        versions::Versions,
        writing::Writing,
    },
    ground,
    lease::DeadMan,
    link::{
        INBOX,
        listener::{Admission, Listener},
        recorder::Recorder,
        unacknowledged::Unacknowledged,
    },
    server::{self, Model, Routes},
    state::{Event, Missing, State},
    subagent::Delegates,
};

/// The secrets that open what Claude Code talks to.
struct Secrets {
    bridge: Token,
    executor: Token,
}

/// A worker that is ready for its loop.
///
/// # Errors
/// Where the link or the lease can't be set up: then there is nobody to tell.
pub(super) fn launch(launch: &WorkerLaunch) -> io::Result<Worker> {
    let lease = DeadMan::new(launch.expires_at)?;
    let terminate = signal(SignalKind::terminate())?;
    let listener = Listener::bind(&launch.socket)?;
    let admission = Admission { session_id: launch.session_id, key: launch.link_key.clone() };
    let (admitted, proven) = mpsc::channel(1);
    let listening = tokio::spawn(async move { listener.admit(admission, admitted).await });
    let (incoming, link) = mpsc::channel(INBOX);
    let (recorder, requests) = Recorder::new();
    let (events, claude) = mpsc::channel(INBOX);
    let secrets = Secrets { bridge: token()?, executor: token()? };
    let authority = Authority::default();
    let (bridge, turns) = Bridge::new(secrets.bridge.clone(), authority.clone());
    let stop = Stop::default();
    let mut worker = Worker {
        instance: launch.instance,
        launch: launch.launch,
        identity: ProcessIdentity::own()?,
        directory: launch.directory.clone(),
        state: State::Starting(None),
        prompt: None,
        run: None,
        released: None,
        claude_version: None,
        records: Unacknowledged::new(launch.launch),
        connection: None,
        connections: 0,
        claude: None,
        coming_up: ComingUp::default(),
        delegates: delegates(launch),
        bridge: bridge.clone(),
        lease,
        arrivals: Arrivals { proven, link, requests, turns, claude, terminate },
        incoming,
        stop: stop.clone(),
        hurried: false,
        listening,
    };
    // Claude Code needs half a second to come up, and the commands' walls are built meanwhile. It is answered, and gets a
    // prompt, only when they stand.
    let begun = start_claude(launch, &secrets, events).and_then(|(claude, listener)| {
        worker.claude = Some(claude);
        let tools = tools(launch, stop).map_err(|message| (message, Missing::Wall))?;
        let executor = Executor::new(authority, recorder, tools.with_delegates(worker.delegates.clone()));
        let endpoint = endpoint(launch, secrets.executor, executor);
        answer(listener, Routes { model: Model::Bridge(bridge), endpoint });
        Ok(())
    });
    if let Err((message, missing)) = begun {
        tracing::error!(message, "the session did not start");
        worker.step(Event::LaunchFailed(message, missing));
    }
    Ok(worker)
}

fn token() -> io::Result<Token> {
    Ok(Secret::random().map_err(|error| io::Error::other(error.to_string()))?.to_token())
}

fn allowed(launch: &WorkerLaunch) -> Vec<ToolName> {
    ToolName::allowed(launch.profile, launch.subagent_policy)
}

/// The session's tools, with the cages of its commands. The error is a sentence for the user.
fn tools(launch: &WorkerLaunch, stop: Stop) -> Result<Tools, String> {
    let protected = ground::protected(&launch.protected, std::slice::from_ref(&launch.scratch));
    let walls = |error: &dyn std::fmt::Display| format!("building the walls for commands failed: {error}");
    let settings = CommandSettings {
        scratch: launch.scratch.clone(),
        environment: launch.command_environment.clone(),
        helper: Helper::this_program().map_err(|error| walls(&error))?,
    };
    let commands = Commands::open(settings).map_err(|error| walls(&error))?;
    let surroundings = Surroundings { working_directory: launch.root.clone(), protected, stop };
    let writing = writing(launch, &surroundings.protected)?;
    let tools = Tools::new(surroundings).with_commands(commands);
    Ok(match writing {
        Some(writing) => tools.with_writing(writing),
        None => tools,
    })
}

/// The session's sub-sessions, where it may have any. Each gets tools of its own: it has seen nothing of the worktree yet.
fn delegates(launch: &WorkerLaunch) -> Option<Delegates> {
    let delegation = launch.delegation.clone()?;
    let mut own = launch.clone();
    own.observed.clear();
    own.subsessions.clear();
    let make_tools = move |folder: &Path, stop| {
        let mut own = own.clone();
        own.directory = folder.to_owned();
        tools(&own, stop)
    };
    let directory = launch.directory.clone();
    Some(Delegates::new(delegation, directory, &launch.subsessions, Box::new(make_tools)))
}

/// What writing needs, where the session may write. The error is a sentence for the user.
fn writing(launch: &WorkerLaunch, protected: &Protected) -> Result<Option<Writing>, String> {
    let Some(identity) = launch.root_identity.clone().filter(|_| launch.profile.writes()) else {
        return Ok(None);
    };
    if ground::judge(protected, &launch.root) == Ground::Protected {
        return Err(ground::PROTECTED.to_owned());
    }
    Ok(Some(Writing {
        root: launch.root.clone(),
        identity,
        modes: NewModes::under_umask(launch.umask),
        observed: Observations::of_earlier(&launch.observed),
        versions: Versions::of_session(&launch.directory, VERSIONS_BYTES),
    }))
}

fn endpoint(launch: &WorkerLaunch, secret: Token, executor: Executor) -> Endpoint {
    Endpoint::new(secret, &allowed(launch), executor)
}

/// Opens the session's port and starts Claude Code, which knows nothing else. The error is a sentence for the user.
fn start_claude(
    launch: &WorkerLaunch,
    secrets: &Secrets,
    events: mpsc::Sender<child::Event>,
) -> Result<(Claude, TcpListener), (String, Missing)> {
    let walls = |error: &dyn std::fmt::Display| {
        (format!("building the walls for Claude Code failed: {error}"), Missing::Wall)
    };
    let program_missing = |message: String| (message, Missing::Program);
    let helper = Helper::this_program().map_err(|error| walls(&error))?;
    // The port exists inside its cage alone.
    let (cage, listener) =
        ClaudeCage::open(&helper, Network::LoopbackListener { port: 0 }).map_err(|error| walls(&error))?;
    let address = listener
        .local_addr()
        .map_err(|error| program_missing(format!("the session's port has no address: {error}")))?;
    let model = ModelEndpoint::verify(&format!("http://{address}"))
        .map_err(|error| program_missing(error.to_string()))?;
    let program = program(launch, &model, secrets)
        .map_err(|error| program_missing(format!("preparing Claude Code's own folder failed: {error}")))?;
    let claude = Claude::start(cage, program, events).map_err(|error| {
        let program = launch.claude.program.display();
        let message = format!(
            "starting Claude Code ({program}) failed: {error}; see whether it is installed, or set CLAUDE_BIN"
        );
        // Whatever but the program itself is missing is a piece of the walls.
        let missing = if let WallError::Exec { .. } = error { Missing::Program } else { Missing::Wall };
        (message, missing)
    })?;
    Ok((claude, listener))
}

/// Answers on the session's port from now on. Who connected before has waited.
fn answer(listener: TcpListener, routes: Routes) {
    tokio::spawn(async move {
        if let Err(error) = server::serve(listener, routes).await {
            tracing::error!(%error, "the session's port can't be served");
        }
    });
}

fn program(launch: &WorkerLaunch, model: &ModelEndpoint, secrets: &Secrets) -> io::Result<Program> {
    let home = Home::prepare(&launch.directory)?;
    let settings = Settings {
        home: &home,
        endpoint: model,
        bridge_secret: &secrets.bridge,
        mcp_config: home.write_mcp_config(model, &secrets.executor)?,
        session_id: launch.claude.session_id,
        start: home.start(launch.claude.session_id)?,
        model: MODEL,
        tools: &allowed(launch),
    };
    tracing::info!(start = ?settings.start, launch = launch.launch, "Claude Code is started");
    Ok(Program {
        path: launch.claude.program.clone(),
        arguments: arguments(&settings),
        environment: environment(&settings),
        directory: home.work(),
        home: home.root(),
    })
}
