//! A meeting over TCP: one server, and a connection of each rank.
//!
//! A connection begins with a magic, the rank and the number of ranks; then each stage is one frame
//! each way, with its length in front. A reply begins with a byte: 0, then what all brought; or 1,
//! then why nobody goes on.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::folder::{pack, unpack};
use super::{MAX_BYTES, Meeting, left, named};
use crate::{BenchError, Result};

const MAGIC: [u8; 8] = *b"FBBENCH\x01";

/// Connections that have not said who they are, beyond the number of ranks.
const STRANGERS: usize = 64;

/// The longest time to wait for a peer to take up a reply.
const REPLY: Duration = Duration::from_secs(10);

/// The server of a meeting; its thread ends with the meeting or at the deadline.
#[derive(Debug)]
pub struct Server {
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves `size` ranks on `listener` until all have left.
    ///
    /// # Errors
    /// The error of the listener.
    pub fn start(listener: TcpListener, size: u32, deadline: Instant) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let hall = Hall {
            listener,
            size,
            deadline,
            strangers: Vec::new(),
            ranks: (0..size).map(|_| None).collect(),
            gone: Vec::new(),
            stage: 0,
        };
        let thread = thread::Builder::new()
            .name("meeting".into())
            .spawn(move || hall.serve())?;
        Ok(Self { thread })
    }

    /// Waits until all ranks have left, or the deadline.
    pub fn end(self) {
        // A panic in there has been printed, and the ranks have lost their connections.
        let _ = self.thread.join();
    }
}

/// A connection and what has come on it.
#[derive(Debug)]
struct Guest {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Guest {
    /// Takes what there is. `false` when the peer has gone or sends too much.
    fn take(&mut self) -> bool {
        let mut buffer = [0u8; 64 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.read.len() > MAX_BYTES + 4 {
                return false;
            }
        }
        true
    }

    /// The frame that has come, if it is whole.
    fn frame(&self) -> Option<&[u8]> {
        let (head, rest) = self.read.split_first_chunk::<4>()?;
        rest.get(..u32::from_le_bytes(*head) as usize)
    }
}

#[derive(Debug)]
struct Hall {
    listener: TcpListener,
    size: u32,
    deadline: Instant,
    strangers: Vec<Guest>,
    ranks: Vec<Option<Guest>>,
    gone: Vec<u32>,
    stage: u64,
}

impl Hall {
    fn serve(mut self) {
        loop {
            if let Some(fault) = self.fault() {
                self.refuse(&fault);
                return;
            }
            if self.gone.len() == self.size as usize {
                return;
            }
            if self
                .ranks
                .iter()
                .flatten()
                .filter(|rank| rank.frame().is_some())
                .count()
                == self.size as usize
            {
                self.answer();
                continue;
            }
            self.wait();
        }
    }

    /// Why nobody can go on, if someone waits and another will not come.
    fn fault(&self) -> Option<String> {
        let waiting = self
            .ranks
            .iter()
            .flatten()
            .any(|rank| rank.frame().is_some());
        if !self.gone.is_empty() && waiting {
            return Some(format!("{} went away", named(&self.gone)));
        }
        if !left(self.deadline).is_zero() {
            return None;
        }
        let missing: Vec<u32> = (0..self.size)
            .filter(|rank| {
                let guest = self.ranks[*rank as usize].as_ref();
                guest.is_none_or(|guest| guest.frame().is_none())
            })
            .collect();
        Some(format!(
            "{} did not come to stage {} in time",
            named(&missing),
            self.stage + 1
        ))
    }

    /// Waits for a new connection or for bytes, and takes them.
    fn wait(&mut self) {
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for guest in self.strangers.iter().chain(self.ranks.iter().flatten()) {
            fds.push(PollFd::from_borrowed_fd(
                guest.stream.as_fd(),
                PollFlags::IN,
            ));
        }
        // An error is an interruption by a signal, or the deadline shows it.
        let most = left(self.deadline).min(Duration::from_secs(1));
        let timeout = rustix::event::Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: most.subsec_nanos().into(),
        };
        let _ = poll(&mut fds, Some(&timeout));
        self.accept();
        self.introduce();
        for (rank, place) in self.ranks.iter_mut().enumerate() {
            if place.as_mut().is_some_and(|guest| !guest.take()) {
                *place = None;
                self.gone.push(rank as u32);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let ready = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true));
            if ready.is_ok() && self.strangers.len() < self.size as usize + STRANGERS {
                self.strangers.push(Guest {
                    stream,
                    read: Vec::new(),
                });
            }
        }
    }

    /// Gives those that have said who they are their place. Others are sent away.
    fn introduce(&mut self) {
        for mut guest in std::mem::take(&mut self.strangers) {
            let stays = guest.take();
            if guest.read.len() < 16 {
                if stays {
                    self.strangers.push(guest);
                }
                continue;
            }
            let word = |at: usize| {
                let bytes = guest.read[at..at + 4].try_into().unwrap_or([0; 4]);
                u32::from_le_bytes(bytes)
            };
            let (rank, size) = (word(8), word(12));
            let known = guest.read[..8] == MAGIC && size == self.size && rank < size;
            // A rank comes once: who comes under its name later is another.
            if known && !self.gone.contains(&rank) && self.ranks[rank as usize].is_none() {
                guest.read.drain(..16);
                if stays {
                    self.ranks[rank as usize] = Some(guest);
                } else {
                    // It came and went before anybody looked.
                    self.gone.push(rank);
                }
            }
        }
    }

    /// Everyone has come: gives each what all brought.
    fn answer(&mut self) {
        self.stage += 1;
        let mut brought = Vec::with_capacity(self.ranks.len());
        for guest in self.ranks.iter_mut().flatten() {
            let frame = guest.frame().unwrap_or_default().to_vec();
            guest.read.drain(..4 + frame.len());
            brought.push(frame);
        }
        self.reply(0, &pack(&brought));
    }

    fn refuse(&mut self, fault: &str) {
        self.reply(1, fault.as_bytes());
    }

    fn reply(&mut self, kind: u8, body: &[u8]) {
        let mut frame = Vec::with_capacity(body.len() + 9);
        frame.extend_from_slice(&(body.len() as u64 + 1).to_le_bytes());
        frame.push(kind);
        frame.extend_from_slice(body);
        for (rank, place) in self.ranks.iter_mut().enumerate() {
            let Some(guest) = place else { continue };
            let sent = guest
                .stream
                .set_nonblocking(false)
                .and_then(|()| guest.stream.set_write_timeout(Some(REPLY)))
                .and_then(|()| guest.stream.write_all(&frame))
                .and_then(|()| guest.stream.set_nonblocking(true));
            if sent.is_err() {
                *place = None;
                self.gone.push(rank as u32);
            }
        }
    }
}

/// A meeting over TCP, as one rank sees it.
#[derive(Debug)]
pub struct TcpMeeting {
    stream: TcpStream,
    size: u32,
    deadline: Instant,
}

impl TcpMeeting {
    /// Connects to the server, which may come up later.
    ///
    /// # Errors
    /// [`BenchError::Ranks`] where it does not until the deadline.
    pub fn join(host: &str, port: u16, rank: u32, size: u32, deadline: Instant) -> Result<Self> {
        let mut pause = Duration::from_millis(1);
        let mut stream = loop {
            let fault = match connect(host, port, left(deadline)) {
                Ok(stream) => break stream,
                Err(fault) => fault,
            };
            if left(deadline).is_zero() {
                return Err(BenchError::Ranks(format!(
                    "rank {rank} cannot reach rank 0 at `{host}:{port}`: {fault}"
                )));
            }
            thread::sleep(pause.min(left(deadline)));
            pause = (pause * 2).min(Duration::from_millis(100));
        };
        let mut hello = MAGIC.to_vec();
        hello.extend_from_slice(&rank.to_le_bytes());
        hello.extend_from_slice(&size.to_le_bytes());
        let lost = |error| lost(&error);
        stream.set_nodelay(true).map_err(lost)?;
        stream.write_all(&hello).map_err(lost)?;
        Ok(Self {
            stream,
            size,
            deadline,
        })
    }

    /// Reads one reply. The server waits until the deadline itself, so it is given a little more.
    fn reply(&mut self) -> io::Result<Vec<u8>> {
        let patience = left(self.deadline) + REPLY;
        self.stream.set_read_timeout(Some(patience))?;
        let mut head = [0; 8];
        self.stream.read_exact(&mut head)?;
        let len = u64::from_le_bytes(head);
        if len == 0 || len > u64::from(self.size) * (MAX_BYTES as u64 + 4) + 1 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = Vec::new();
        Read::by_ref(&mut self.stream)
            .take(len)
            .read_to_end(&mut body)?;
        if body.len() as u64 != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(body)
    }
}

fn connect(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut fault = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        let patience = patience.clamp(Duration::from_millis(1), Duration::from_secs(5));
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

fn lost(error: &io::Error) -> BenchError {
    BenchError::Ranks(format!("the meeting of the ranks is over: {error}"))
}

impl Meeting for TcpMeeting {
    fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        if bytes.len() > MAX_BYTES {
            return Err(BenchError::Usage(format!(
                "a rank brings at most {MAX_BYTES} bytes to a meeting: {}",
                bytes.len()
            )));
        }
        let mut frame = (bytes.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(bytes);
        self.stream
            .write_all(&frame)
            .map_err(|error| lost(&error))?;
        let reply = self.reply().map_err(|error| lost(&error))?;
        match reply.split_first() {
            Some((0, packed)) => {
                unpack(packed, self.size).ok_or_else(|| lost(&io::ErrorKind::InvalidData.into()))
            }
            Some((_, fault)) => Err(BenchError::Ranks(
                String::from_utf8_lossy(fault).into_owned(),
            )),
            None => Err(lost(&io::ErrorKind::UnexpectedEof.into())),
        }
    }
}
