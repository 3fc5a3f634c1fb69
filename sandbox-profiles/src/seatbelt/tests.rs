use super::{
    evaluator::{Object, Profile},
    *,
};

const SCRATCH: &str = "/Users/me/Library/Work/scratch/1";
const PROGRAM: &str = "/Users/me/.npm-global/lib/claude";

fn path(text: &str) -> AbsolutePath {
    AbsolutePath::new(text).unwrap()
}

fn profile(spec: &SandboxSpec) -> Profile {
    let rendered = render(spec, Path::new(PROGRAM), Some(43_117)).unwrap();
    let text = |(name, value): &(String, OsString)| (name.clone(), value.to_string_lossy().into_owned());
    let parameters: Vec<(String, String)> = rendered.parameters.iter().map(text).collect();
    Profile::read(&rendered.text, &parameters).unwrap()
}

fn command() -> SandboxSpec {
    let hidden =
        ["/Users/me/.ssh", "/Users/me/.netrc", "/Users/me/state", "/Users/me/Library/Work/scratch/1/twin"];
    let mut spec = SandboxSpec::command(path(SCRATCH), hidden.map(path).to_vec());
    spec.execution = Execution::AnythingBut(vec![path("/opt/model-cli")]);
    spec
}

fn claude() -> SandboxSpec {
    let mut spec = SandboxSpec::claude(path(SCRATCH), vec![path("/Users/me/extra")], Vec::new());
    spec.protected = vec![path("/Users/me/.ssh")];
    spec
}

/// What one row of a table expects.
const YES: bool = true;
const NO: bool = false;

#[track_caller]
fn holds(profile: &Profile, table: &[(&str, Object<'_>, bool)]) {
    for (operation, object, expected) in table {
        let answer = profile.allows(operation, *object).unwrap();
        assert_eq!(answer, *expected, "{operation} of {object:?}");
    }
}

#[test]
fn a_command_reads_everything_but_secrets_and_writes_its_scratch_alone() {
    use Object::{Device, Path};
    holds(
        &profile(&command()),
        &[
            ("file-read-data", Path("/Users/me/code/main.rs"), YES),
            ("file-read-data", Path("/Users/me/.sshx"), YES),
            ("file-read-data", Path("/private/etc/passwd"), YES),
            ("file-read-data", Path("/Users/me/.ssh"), NO),
            ("file-read-data", Path("/Users/me/.ssh/id"), NO),
            ("file-read-metadata", Path("/Users/me/.ssh/id"), NO),
            ("file-read-data", Path("/System/Volumes/Data/Users/me/.ssh/id"), NO),
            ("file-read-data", Path("/Users/me/.netrc"), NO),
            ("file-read-data", Path("/Users/me/state/token"), NO),
            ("file-read-data", Path("/opt/model-cli/cli.js"), NO),
            ("file-map-executable", Path("/opt/model-cli/addon.node"), NO),
            ("process-exec", Path("/opt/model-cli/bin"), NO),
            ("process-exec", Path("/bin/ls"), YES),
            ("process-exec", Path("/Users/me/Library/Work/scratch/1/built"), YES),
            ("process-fork", Object::Nothing, YES),
            ("file-write-create", Path("/Users/me/Library/Work/scratch/1/file"), YES),
            ("file-write-data", Path("/Users/me/Library/Work/scratch/1/file"), YES),
            ("file-write-setugid", Path("/Users/me/Library/Work/scratch/1/file"), NO),
            ("file-read-data", Path("/Users/me/Library/Work/scratch/1/twin"), NO),
            ("file-write-data", Path("/Users/me/Library/Work/scratch/1/twin"), NO),
            ("file-write-create", Path("/Users/me/Library/Work/scratch/2/file"), NO),
            ("file-write-create", Path("/Users/me/code/new"), NO),
            ("file-write-unlink", Path("/Users/me/code/main.rs"), NO),
            ("file-write-mode", Path("/Users/me/code/main.rs"), NO),
            ("file-write-create", Path("/private/tmp/x"), NO),
            ("file-write-data", Device("/dev/null"), YES),
            ("file-write-data", Path("/dev/null"), NO),
            ("file-write-data", Device("/dev/disk0"), NO),
        ],
    );
}

#[test]
fn a_command_reaches_no_network_no_service_and_no_other_process() {
    let tcp = Object::Tcp { loopback: true, port: 43_117 };
    holds(
        &profile(&command()),
        &[
            ("network-outbound", tcp, NO),
            ("network-outbound", Object::Tcp { loopback: false, port: 443 }, NO),
            ("network-outbound", Object::Udp, NO),
            ("network-outbound", Object::SocketFile("/private/var/run/docker.sock"), NO),
            ("network-outbound", Object::SocketFile("/private/var/run/mDNSResponder"), NO),
            ("network-bind", tcp, NO),
            ("network-inbound", tcp, NO),
            ("system-socket", Object::Nothing, NO),
            ("mach-lookup", Object::Service("com.apple.SecurityServer"), NO),
            ("mach-lookup", Object::Service("com.apple.secd"), NO),
            ("mach-lookup", Object::Service("com.apple.coreservices.appleevents"), NO),
            ("mach-lookup", Object::Service("com.apple.anything"), NO),
            ("mach-lookup", Object::Service("com.apple.logd"), YES),
            ("mach-register", Object::Service("mine"), NO),
            ("signal", Object::Others, NO),
            ("signal", Object::SameSandbox, YES),
            ("process-info-pidinfo", Object::Others, NO),
            ("process-info-pidinfo", Object::Itself, YES),
            ("sysctl-read", Object::Nothing, YES),
            ("sysctl-write", Object::Nothing, NO),
            ("iokit-open", Object::Nothing, NO),
            ("job-creation", Object::Nothing, NO),
            ("ipc-posix-sem", Object::Nothing, YES),
            ("ipc-posix-shm-read-data", Object::Nothing, NO),
        ],
    );
}

#[test]
fn claude_code_reaches_one_port_and_starts_nothing() {
    use Object::Path;
    holds(
        &profile(&claude()),
        &[
            ("network-outbound", Object::Tcp { loopback: true, port: 43_117 }, YES),
            ("network-outbound", Object::Tcp { loopback: true, port: 43_118 }, NO),
            ("network-outbound", Object::Tcp { loopback: false, port: 43_117 }, NO),
            ("network-outbound", Object::Udp, NO),
            ("network-outbound", Object::SocketFile("/private/var/run/mDNSResponder"), NO),
            ("network-bind", Object::Tcp { loopback: true, port: 43_117 }, NO),
            ("process-exec", Path(PROGRAM), YES),
            ("process-exec", Path("/bin/sh"), NO),
            ("process-exec", Path("/Users/me/Library/Work/scratch/1/program"), NO),
            ("file-map-executable", Path("/Users/me/Library/Work/scratch/1/library"), NO),
            ("file-map-executable", Path("/usr/lib/libSystem.B.dylib"), YES),
            ("process-fork", Object::Nothing, NO),
            ("signal", Object::SameSandbox, NO),
            ("signal", Object::Itself, YES),
            ("file-read-data", Path(PROGRAM), YES),
            ("file-read-data", Path("/Users/me/extra/file"), YES),
            ("file-read-data", Path("/Users/me/code/main.rs"), NO),
            ("file-read-data", Path("/Users/me"), NO),
            ("file-read-metadata", Path("/Users/me"), YES),
            ("file-read-metadata", Path("/Users/me/code"), NO),
            ("file-read-data", Path("/private/etc/passwd"), NO),
            ("file-read-data", Path("/Users/me/.ssh/id"), NO),
            ("file-write-create", Path("/Users/me/Library/Work/scratch/1/x"), YES),
            ("file-write-create", Path("/Users/me/extra/x"), NO),
            ("file-write-data", Path(PROGRAM), NO),
            ("mach-lookup", Object::Service("com.apple.SecurityServer"), NO),
        ],
    );
}

#[test]
fn no_path_reaches_the_text_of_a_profile() {
    let hostile = path("/Users/me/\")) (allow default) (deny file-read* (literal \"");
    let rendered =
        render(&SandboxSpec::command(path(SCRATCH), vec![hostile]), Path::new(PROGRAM), None).unwrap();
    assert!(!rendered.text.contains("/Users"), "{}", rendered.text);
    assert!(!rendered.text.contains('@'), "{}", rendered.text);
    assert!(
        rendered.arguments().iter().any(|argument| argument.to_string_lossy().contains("(allow default)"))
    );
}

#[test]
fn a_mixture_of_rules_is_refused() {
    let mut mixed = command();
    mixed.network = Network::LoopbackListener { port: 1 };
    let mut two = command();
    two.writable.push(path("/Users/me/second"));
    for spec in [mixed, two] {
        assert!(matches!(render(&spec, Path::new(PROGRAM), Some(1)), Err(WallError::Unsupported { .. })));
    }
}

#[test]
fn the_evaluator_refuses_what_it_does_not_know() {
    for bad in [
        "(allow default)",
        "(version 1)(deny default",
        "(version 1)(allow file-raed*)",
        "(version 1)(allow file-read* (subpath \"/tmp/x\"))",
        "(version 1)(allow file-read* (subpath (param \"NONE\")))",
        "(version 1)(allow network-outbound (remote tcp \"127.0.0.1:80\"))",
        "(version 1)(allow network-outbound (local ip \"localhost:80\"))",
    ] {
        assert!(Profile::read(bad, &[]).is_err(), "{bad}");
    }
    let ambiguous = "(version 1)(deny default)(deny file-read* (subpath \"/a\"))(allow file-read*)";
    assert!(Profile::read(ambiguous, &[]).unwrap().allows("file-read-data", Object::Path("/a/x")).is_err());
}
