//! One HTTP/1.1 exchange over a connection of its own, with nothing between the test and the bytes.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Mutex,
    time::Duration,
};

/// Longer than any call may take: a call that is cut here has broken its promise.
const READ: Duration = Duration::from_secs(90);

/// A request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// Headers beyond `Host`, `Connection` and `Content-Length`; a `Host` here replaces the right one.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: &'a [u8],
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What came out of the servers that a test listens to.
static HEARD: Mutex<BTreeMap<SocketAddr, Vec<Response>>> = Mutex::new(BTreeMap::new());

/// From here on every answer of this server to this process is kept.
///
/// # Panics
/// Where another test panicked in the middle of an answer.
pub fn listen_to(address: SocketAddr) {
    HEARD.lock().expect("a lock").entry(address).or_default();
}

/// What was kept, whole.
///
/// # Panics
/// Where another test panicked in the middle of an answer.
#[must_use]
pub fn heard(address: SocketAddr) -> Vec<Response> {
    HEARD.lock().expect("a lock").get(&address).cloned().unwrap_or_default()
}

/// Connects, sends, reads to the end of the answer.
///
/// # Errors
/// Where the connection fails, is cut, or carries no HTTP.
pub fn exchange(address: SocketAddr, request: &Request<'_>) -> io::Result<Response> {
    let mut stream = send(address, request)?;
    let mut reader = BufReader::new(&mut stream);
    let response = read_response(&mut reader)?;
    if let Some(heard) = HEARD.lock().map_err(|_| io::ErrorKind::Other)?.get_mut(&address) {
        heard.push(response.clone());
    }
    Ok(response)
}

/// Connects and sends, and hands over the connection: dropping it is a client that went away.
///
/// # Errors
/// Where the connection fails.
pub fn send(address: SocketAddr, request: &Request<'_>) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ))?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += &format!("Host: {address}\r\n");
    }
    for (name, value) in &request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Connection: close\r\nContent-Length: {}\r\n\r\n", request.body.len());
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(request.body);
    match stream.write_all(&bytes) {
        // A server that refuses a large body early may close its side while the body is still on its way.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
        other => other?,
    }
    Ok(stream)
}

fn read_response(reader: &mut impl BufRead) -> io::Result<Response> {
    let first = line(reader)?;
    let status = first
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| io::Error::other(format!("no HTTP status in {first:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?;
        if line.is_empty() {
            break;
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| io::Error::other("a header without a colon"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut response = Response { status, headers, body: Vec::new() };
    if response.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        read_chunks(reader, &mut response.body)?;
    } else if let Some(length) = response.header("content-length").and_then(|v| v.parse().ok()) {
        response.body = vec![0; length];
        reader.read_exact(&mut response.body)?;
    } else {
        reader.read_to_end(&mut response.body)?;
    }
    Ok(response)
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = line(reader)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            return Ok(());
        }
        let got = reader.by_ref().take(size).read_to_end(body)?;
        if got as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line(reader)?;
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
