//! A hostile program in the place of a sub-session's: it is told in its prompt what to try, tries it, and tells in its result
//! how each try went.
#![expect(clippy::disallowed_methods, reason = "it tries what nobody may")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, BufRead, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

/// A connection that is not refused at once is not there either.
const PATIENCE: Duration = Duration::from_secs(3);

/// As much of an answer as is told.
const TOLD: usize = 300;

fn main() {
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    let prompt: Value = serde_json::from_str(&line).unwrap_or_default();
    let orders: Value =
        serde_json::from_str(prompt["message"]["content"].as_str().unwrap_or_default()).unwrap_or_default();
    say(&json!({
        "type": "system", "subtype": "init", "claude_code_version": "2.1.247",
        "mcp_servers": [{"name": "gateway", "status": "connected"}],
    }));
    let told = Tries::new(&orders).all();
    say(
        &json!({"type": "result", "subtype": "success", "is_error": false, "result": json!(told).to_string()}),
    );
    // It goes when it is told to.
    let _ = io::stdin().lock().read_line(&mut line);
}

fn say(message: &Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

struct Tries<'a> {
    orders: &'a Value,
    /// Its own port.
    own: Option<SocketAddr>,
    model_secret: String,
    tools_secret: String,
    told: BTreeMap<String, String>,
}

impl<'a> Tries<'a> {
    fn new(orders: &'a Value) -> Self {
        let arguments: Vec<String> = env::args().collect();
        let named = arguments.iter().position(|word| word == "--mcp-config");
        let config = named.and_then(|at| fs::read_to_string(arguments.get(at + 1)?).ok());
        let config: Value = serde_json::from_str(&config.unwrap_or_default()).unwrap_or_default();
        let bearer = config["mcpServers"]["gateway"]["headers"]["Authorization"].as_str();
        let variable = |name| env::var(name).unwrap_or_default();
        Self {
            orders,
            own: variable("ANTHROPIC_BASE_URL").strip_prefix("http://").and_then(|own| own.parse().ok()),
            model_secret: variable("ANTHROPIC_API_KEY"),
            tools_secret: bearer.and_then(|all| all.strip_prefix("Bearer ")).unwrap_or_default().to_owned(),
            told: BTreeMap::new(),
        }
    }

    fn all(mut self) -> BTreeMap<String, String> {
        self.addresses();
        self.secrets();
        self.own_port();
        self.files();
        self.processes();
        self.told
    }

    fn tell(&mut self, what: &str, how: &str) {
        self.told.insert(what.to_owned(), how.chars().take(TOLD).collect());
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.orders[name].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// Addresses that are not its own port.
    fn addresses(&mut self) {
        for address in self.texts("addresses") {
            let how = match address.parse() {
                Ok(parsed) if Some(parsed) == self.own => "own port".to_owned(),
                Ok(parsed) => outcome(TcpStream::connect_timeout(&parsed, PATIENCE)),
                Err(_) => "no address".to_owned(),
            };
            self.tell(&format!("connect {address}"), &how);
        }
    }

    /// Secrets that are another's, at its own port.
    fn secrets(&mut self) {
        let list = call(1, "tools/list", &json!({}));
        let ask = message("evil");
        for (at, secret) in self.texts("secrets").into_iter().enumerate() {
            let tools = self.post("/mcp", &[("Authorization", &format!("Bearer {secret}"))], &list);
            self.tell(&format!("tools with secret {at}"), &tools);
            let model = self.post("/v1/messages", &[("x-api-key", &secret)], &ask);
            self.tell(&format!("model with secret {at}"), &model);
        }
        let nothing = self.post("/v1/messages", &[], &ask);
        self.tell("model without secret", &nothing);
    }

    fn own_port(&mut self) {
        let bearer = format!("Bearer {}", self.tools_secret);
        let secret = self.model_secret.clone();
        let meta = json!({"claudecode/toolUseId": "call_1"});
        let start = json!({"name": "deepseek_subagent_start", "_meta": meta,
            "arguments": {"task": "x", "model": "opus"}});
        let bash = json!({"name": "Bash", "_meta": meta, "arguments": {"command": "true"}});
        let own = [("Authorization", bearer.as_str())];
        for (what, body) in [
            ("tools", call(1, "tools/list", &json!({}))),
            ("delegate", call(2, "tools/call", &start)),
            ("bash", call(3, "tools/call", &bash)),
        ] {
            let how = self.whole_post("/mcp", &own, &body);
            let names: Vec<_> =
                how.split("\"name\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            let body = how.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
            let how = if what == "tools" { names.join(" ") } else { body };
            self.tell(what, &how);
        }
        let own = [("x-api-key", secret.as_str()), ("Authorization", "Bearer evil"), ("x-evil", "evil")];
        for path in
            ["/v1/models", "/v1/messages/count_tokens", "/", "/v1/complete", "http://192.0.2.1/v1/messages"]
        {
            let how = self.post(path, &own, &message("evil"));
            self.tell(&format!("path {path}"), &how);
        }
        let asked = self.post("/v1/messages", &own, &message("evil"));
        self.tell("ask", &asked);
    }

    fn files(&mut self) {
        for path in self.texts("files") {
            let how = outcome(fs::read(&path));
            self.tell(&format!("read {path}"), &how);
        }
        for path in self.texts("write") {
            let how = outcome(fs::write(&path, "evil"));
            self.tell(&format!("write {path}"), &how);
        }
        let how = outcome(Command::new("/bin/sh").arg("-c").arg("true").spawn());
        self.tell("run", &how);
    }

    /// Whatever /proc shows.
    fn processes(&mut self) {
        let needle = self.orders["needle"].as_str().unwrap_or("?").to_owned();
        let mut holders = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            for file in ["environ", "cmdline", "mountinfo"] {
                let found = fs::read(entry.path().join(file)).unwrap_or_default();
                if String::from_utf8_lossy(&found).contains(&needle) {
                    holders.push(entry.path().join(file).display().to_string());
                }
            }
        }
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count();
        self.tell("holders", &holders.join(" "));
        self.tell("processes", &pids.to_string());
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> String {
        let answer = self.whole_post(path, headers, body);
        answer.split("\r\n").next().unwrap_or_default().to_owned()
    }

    fn whole_post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> String {
        let Some(own) = self.own else { return "no port".to_owned() };
        let body = body.to_string();
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let sent = TcpStream::connect(own).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        });
        sent.unwrap_or_else(|error| error.kind().to_string())
    }
}

fn outcome<T>(tried: io::Result<T>) -> String {
    match tried {
        Ok(_) => "done".to_owned(),
        Err(error) => error.kind().to_string(),
    }
}

fn call(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn message(model: &str) -> Value {
    json!({
        "model": model, "stream": true, "max_tokens": 1, "metadata": {"user_id": "x"},
        "messages": [{"role": "user", "content": "x"}],
    })
}
