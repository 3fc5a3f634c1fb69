//! Reads a Seatbelt profile and answers what it allows, under both readings of the order of rules: the last match
//! wins, or filtered rules outrank unfiltered ones. An answer on which they differ is an error, and so is every form,
//! operation or filter that the profiles here don't use: a typing error can't pass for a rule.
//!
//! This checks what the profiles mean to say. Whether Apple's compiler agrees only a Mac can tell.

use std::collections::HashMap;

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Word(String),
    Text(String),
    List(Vec<Form>),
}

/// Operations that the profiles name or that the tests ask about.
const OPERATIONS: &[&str] = &[
    "default",
    "file-read-data",
    "file-read-metadata",
    "file-write-data",
    "file-write-create",
    "file-write-unlink",
    "file-write-mode",
    "file-write-setugid",
    "file-ioctl",
    "file-map-executable",
    "process-exec",
    "process-fork",
    "process-info-pidinfo",
    "signal",
    "sysctl-read",
    "sysctl-write",
    "mach-lookup",
    "mach-register",
    "network-outbound",
    "network-inbound",
    "network-bind",
    "system-socket",
    "ipc-posix-sem",
    "ipc-posix-shm-read-data",
    "iokit-open",
    "job-creation",
];

/// What is touched.
#[derive(Debug, Clone, Copy)]
pub(super) enum Object<'a> {
    Path(&'a str),
    Device(&'a str),
    Tcp { loopback: bool, port: u16 },
    Udp,
    SocketFile(&'a str),
    Service(&'a str),
    Itself,
    SameSandbox,
    Others,
    Nothing,
}

struct Rule {
    allows: bool,
    operations: Vec<String>,
    filters: Vec<Form>,
}

pub(super) struct Profile {
    rules: Vec<Rule>,
    parameters: HashMap<String, String>,
}

fn covers(named: &str, operation: &str) -> bool {
    named == "default"
        || named == operation
        || named.strip_suffix('*').is_some_and(|start| operation.starts_with(start))
}

impl Profile {
    pub(super) fn read(text: &str, parameters: &[(String, String)]) -> Result<Self, String> {
        let mut forms = parse(text)?.into_iter();
        match forms.next() {
            Some(Form::List(list)) if list == [Form::Word("version".into()), Form::Word("1".into())] => {}
            other => return Err(format!("(version 1) comes first, not {other:?}")),
        }
        let mut profile = Profile { rules: Vec::new(), parameters: parameters.iter().cloned().collect() };
        for form in forms {
            let rule = rule(form)?;
            // Validates every filter once, whatever is asked later.
            for filter in &rule.filters {
                profile.matches(filter, Object::Nothing)?;
            }
            profile.rules.push(rule);
        }
        Ok(profile)
    }

    pub(super) fn allows(&self, operation: &str, object: Object<'_>) -> Result<bool, String> {
        if !OPERATIONS.contains(&operation) {
            return Err(format!("unknown operation {operation}"));
        }
        let (mut last, mut unfiltered, mut filtered) = (false, false, None);
        for rule in &self.rules {
            if !rule.operations.iter().any(|named| covers(named, operation)) {
                continue;
            }
            if rule.filters.is_empty() {
                unfiltered = rule.allows;
                last = rule.allows;
                continue;
            }
            let mut hit = false;
            for filter in &rule.filters {
                hit |= self.matches(filter, object)?;
            }
            if hit {
                filtered = Some(rule.allows);
                last = rule.allows;
            }
        }
        if filtered.unwrap_or(unfiltered) == last {
            Ok(last)
        } else {
            Err(format!("{operation} of {object:?} depends on how unfiltered rules rank"))
        }
    }

    fn text(&self, form: &Form) -> Result<String, String> {
        match form {
            Form::Text(text) => Ok(text.clone()),
            Form::List(list) => match list.as_slice() {
                [Form::Word(word), Form::Text(name)] if word == "param" => {
                    self.parameters.get(name).cloned().ok_or_else(|| format!("no parameter {name}"))
                }
                [Form::Word(word), parts @ ..] if word == "string-append" => {
                    parts.iter().map(|part| self.text(part)).collect()
                }
                _ => Err(format!("a text was expected, not {form:?}")),
            },
            Form::Word(_) => Err(format!("a text was expected, not {form:?}")),
        }
    }

    fn path(&self, form: &Form) -> Result<String, String> {
        let path = self.text(form)?;
        let crooked =
            !path.starts_with('/') || path.contains("//") || path.split('/').any(|part| part == "..");
        let alias = ["/tmp", "/var", "/etc", "/home"]
            .iter()
            .any(|link| path == *link || path.starts_with(&format!("{link}/")));
        if crooked || alias {
            Err(format!("{path} is no physical path: the rule would never match"))
        } else {
            Ok(path)
        }
    }

    fn matches(&self, filter: &Form, object: Object<'_>) -> Result<bool, String> {
        let Form::List(list) = filter else { return Err(format!("{filter:?} is no filter")) };
        let [Form::Word(kind), rest @ ..] = list.as_slice() else {
            return Err(format!("{filter:?} is no filter"));
        };
        let here = if let Object::Path(path) | Object::Device(path) | Object::SocketFile(path) = object {
            Some(path)
        } else {
            None
        };
        match (kind.as_str(), rest) {
            ("require-all", all) => {
                all.iter().try_fold(true, |so_far, one| Ok(self.matches(one, object)? && so_far))
            }
            ("require-any", any) => {
                any.iter().try_fold(false, |so_far, one| Ok(self.matches(one, object)? || so_far))
            }
            ("literal", [path]) => self.path(path).map(|path| here == Some(&path)),
            ("subpath", [path]) => {
                let path = self.path(path)?;
                Ok(here.is_some_and(|here| {
                    here == path || here.starts_with(&format!("{}/", path.trim_end_matches('/')))
                }))
            }
            ("vnode-type", [Form::Word(kind)]) if kind == "CHARACTER-DEVICE" => {
                Ok(matches!(object, Object::Device(_)))
            }
            ("global-name", [name]) => {
                let name = self.text(name)?;
                Ok(matches!(object, Object::Service(asked) if asked == name))
            }
            ("target", [Form::Word(target)]) => match target.as_str() {
                "self" => Ok(matches!(object, Object::Itself)),
                "same-sandbox" => Ok(matches!(object, Object::Itself | Object::SameSandbox)),
                other => Err(format!("unknown target {other}")),
            },
            ("remote", [Form::Word(protocol), address]) => remote(protocol, &self.text(address)?, object),
            _ => Err(format!("unknown filter {filter:?}")),
        }
    }
}

fn remote(protocol: &str, address: &str, object: Object<'_>) -> Result<bool, String> {
    let Some(("localhost", port)) = address.rsplit_once(':') else {
        return Err(format!("{address}: the host must be localhost, an address voids the whole profile"));
    };
    let allowed: u16 = port.parse().map_err(|_| format!("{port} is no port"))?;
    match protocol {
        "tcp" => Ok(matches!(object, Object::Tcp { loopback: true, port } if port == allowed)),
        other => Err(format!("unknown protocol {other}")),
    }
}

fn rule(form: Form) -> Result<Rule, String> {
    let Form::List(list) = form else { return Err("a rule is a list".into()) };
    let allows = match list.first() {
        Some(Form::Word(word)) if word == "allow" => true,
        Some(Form::Word(word)) if word == "deny" => false,
        other => return Err(format!("unknown form {other:?}")),
    };
    let named = |form: &Form| if let Form::Word(word) = form { Some(word.clone()) } else { None };
    let operations: Vec<String> = list[1..].iter().map_while(named).collect();
    for operation in &operations {
        if !OPERATIONS.iter().any(|known| covers(operation, known)) {
            return Err(format!("unknown operation {operation}"));
        }
    }
    if operations.is_empty() {
        return Err("a rule without an operation".into());
    }
    let filters = list[1 + operations.len()..].to_vec();
    Ok(Rule { allows, operations, filters })
}

fn parse(text: &str) -> Result<Vec<Form>, String> {
    let mut open: Vec<Vec<Form>> = vec![Vec::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let form = match character {
            ';' => {
                characters.by_ref().find(|character| *character == '\n');
                continue;
            }
            '(' => {
                open.push(Vec::new());
                continue;
            }
            ')' => Form::List(open.pop().ok_or("a ) too many")?),
            '"' => Form::Text(characters.by_ref().take_while(|character| *character != '"').collect()),
            space if space.is_whitespace() => continue,
            first => {
                let mut word = String::from(first);
                while let Some(next) =
                    characters.next_if(|next| !next.is_whitespace() && !"();\"".contains(*next))
                {
                    word.push(next);
                }
                Form::Word(word)
            }
        };
        open.last_mut().ok_or("a ) too many")?.push(form);
    }
    match (open.pop(), open.is_empty()) {
        (Some(forms), true) => Ok(forms),
        _ => Err("a ( is not closed".into()),
    }
}
