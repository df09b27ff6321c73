//! A web server that answers as a test says, however wrong.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_objects::{ObjectStores, StoreSettings};
use forebay_origin::{Objects, StoreUrl, Stores};

/// What a client asks for.
pub(crate) struct Request {
    pub(crate) method: String,
    /// With its query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// First byte, and one past the last.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().ok()? + 1))
    }
}

/// What the server does then.
pub(crate) enum Reply {
    /// Sends these bytes and closes the connection.
    Raw(Vec<u8>),
    /// Sends these bytes over and over until the client leaves.
    Endless { head: Vec<u8>, again: Vec<u8> },
    /// Sends these bytes, then nothing, until the client leaves.
    Hang(Vec<u8>),
}

/// An answer with a body.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = head(status, headers, body.len());
    bytes.extend(body);
    bytes
}

/// The head of an answer whose body has `len` bytes.
pub(crate) fn head(status: &str, headers: &[(&str, &str)], len: usize) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// What a decent server answers about an object.
pub(crate) fn object(request: &Request, bytes: &[u8], etag: &str) -> Vec<u8> {
    let stamp = ("last-modified", "Tue, 14 Nov 2023 22:13:20 GMT");
    if request.method == "HEAD" {
        return head("200 OK", &[("etag", etag), stamp], bytes.len());
    }
    match request.range() {
        Some((first, _)) if first >= bytes.len() => answer("416 Range Not Satisfiable", &[], b""),
        Some((first, end)) => {
            let end = end.min(bytes.len());
            let range = format!("bytes {first}-{}/{}", end - 1, bytes.len());
            let headers = [("etag", etag), stamp, ("content-range", range.as_str())];
            answer("206 Partial Content", &headers, &bytes[first..end])
        }
        None => answer("200 OK", &[("etag", etag), stamp], bytes),
    }
}

pub(crate) struct Server {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// `reply` is given the request and how many came before it.
    pub(crate) fn start(reply: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicUsize::new(0));
        let reply = Arc::new(reply);
        let (until, counter) = (stopped.clone(), asked.clone());
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if until.load(Ordering::SeqCst) {
                    return;
                }
                let (reply, counter) = (reply.clone(), counter.clone());
                std::thread::spawn(move || {
                    // The client may leave at any time: that is no fault of the test.
                    let _ = stream.and_then(|stream| converse(stream, &*reply, &counter));
                });
            }
        });
        Self {
            address,
            stopped,
            asked,
            accepting: Some(accepting),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Requests so far.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The server as a web server, for calls of so many milliseconds.
    pub(crate) fn web(&self, call_ms: u64) -> Arc<dyn Objects> {
        self.web_in_class(None, call_ms)
    }

    pub(crate) fn web_in_class(&self, dscp: Option<u8>, call_ms: u64) -> Arc<dyn Objects> {
        open_in_class(dscp, &format!("http://{}", self.address), call_ms, &[])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

pub(crate) fn open(url: &str, call_ms: u64, variables: &[(&str, &str)]) -> Arc<dyn Objects> {
    open_in_class(None, url, call_ms, variables)
}

/// The same in a traffic class, for which there is another client.
pub(crate) fn open_in_class(
    dscp: Option<u8>,
    url: &str,
    call_ms: u64,
    variables: &[(&str, &str)],
) -> Arc<dyn Objects> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let settings = StoreSettings {
        call: Duration::from_millis(call_ms),
        dscp,
        variables: variables.iter().map(owned).collect(),
    };
    let url = StoreUrl::parse(url).unwrap();
    ObjectStores::new(settings).open(&url).unwrap()
}

fn converse(
    mut stream: TcpStream,
    reply: &(dyn Fn(&Request, usize) -> Reply + Sync),
    counter: &AtomicUsize,
) -> std::io::Result<()> {
    let request = read(&stream)?;
    let send = |stream: &mut TcpStream, bytes: &[u8]| stream.write_all(bytes);
    match reply(&request, counter.fetch_add(1, Ordering::SeqCst)) {
        Reply::Raw(bytes) => send(&mut stream, &bytes),
        Reply::Endless { head, again } => {
            send(&mut stream, &head)?;
            loop {
                send(&mut stream, &again)?;
            }
        }
        Reply::Hang(bytes) => {
            send(&mut stream, &bytes)?;
            std::io::copy(&mut stream.take(1 << 20), &mut std::io::sink()).map(drop)
        }
    }
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let mut headers = Vec::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    Ok(Request {
        method,
        target,
        headers,
    })
}
