//! The proof that both sides have the job's secret, and who they are.
//!
//! Noise `NNpsk0`: two messages that only holders of the key can make, with fresh keys of both
//! sides in them. The first alone could be played back, so nothing is believed before the third,
//! the hello of the side that dialled, opens under the keys of this very link.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use forebay_wire::{Hello, Preamble};
use snow::{Builder, HandshakeState, TransportState};

use crate::link::{LinkReader, LinkWriter};
use crate::{LinkError, Secret, SocketPlan};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Most bytes of one message of the proof.
const MESSAGE: usize = 4096;
/// First byte of the last message: welcome, or the reason for a refusal.
const WELCOME: u8 = 0;
const REFUSED: u8 = 1;

/// A socket during the proof, which has a deadline as a whole.
struct Proving {
    stream: TcpStream,
    deadline: Instant,
}

impl Proving {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(&mut out[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write_all(bytes)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let len = (message.len() as u16).to_le_bytes();
        self.write(&[&len, message].concat())
    }

    fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        let mut len = [0; 2];
        self.read(&mut len)?;
        let len = usize::from(u16::from_le_bytes(len));
        if len > MESSAGE {
            return Err(LinkError::Unproven);
        }
        let mut message = vec![0; len];
        self.read(&mut message)?;
        Ok(message)
    }

    fn exchange_preambles(&mut self) -> Result<(), LinkError> {
        self.write(&Preamble::encode())?;
        let mut theirs = [0; Preamble::BYTES];
        self.read(&mut theirs)?;
        Ok(Preamble::check(theirs)?)
    }
}

fn noise<'a>(secret: &'a Secret, prologue: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(PATTERN.parse()?)
        .psk(0, secret.key())?
        .prologue(prologue)
}

/// One step of the proof; whatever fails in it, the other side has not proved anything.
fn step<T>(made: Result<T, snow::Error>) -> Result<T, LinkError> {
    made.map_err(|_| LinkError::Unproven)
}

fn make(noise: &mut HandshakeState) -> Result<Vec<u8>, LinkError> {
    let mut message = vec![0; MESSAGE];
    let len = step(noise.write_message(&[], &mut message))?;
    message.truncate(len);
    Ok(message)
}

fn seal(noise: &mut TransportState, words: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut message = vec![0; MESSAGE];
    let len = step(noise.write_message(words, &mut message))?;
    message.truncate(len);
    Ok(message)
}

fn open(noise: &mut TransportState, message: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut words = vec![0; MESSAGE];
    let len = step(noise.read_message(message, &mut words))?;
    words.truncate(len);
    Ok(words)
}

/// Proves the secret to the side that was dialled, and has it prove it.
pub(crate) fn prove(
    stream: TcpStream,
    secret: &Secret,
    hello: &Hello,
    deadline: Instant,
) -> Result<TcpStream, LinkError> {
    let mut to = Proving { stream, deadline };
    to.exchange_preambles()?;
    let mut noise = step(noise(secret, &Preamble::encode()).and_then(Builder::build_initiator))?;
    to.send(&make(&mut noise)?)?;
    step(noise.read_message(&to.receive()?, &mut [0; MESSAGE]))?;
    let mut noise = step(noise.into_transport_mode())?;
    to.send(&seal(&mut noise, &hello.encode())?)?;
    let words = open(&mut noise, &to.receive()?)?;
    match words.split_first() {
        Some((&WELCOME, [])) => Ok(to.stream),
        Some((&REFUSED, reason)) => {
            let reason = String::from_utf8_lossy(reason).into_owned();
            Err(LinkError::Refused(reason))
        }
        _ => Err(LinkError::Unproven),
    }
}

/// Has the side that dialled prove the secret and say who it is. `admit` says why it may not come.
///
/// # Errors
/// [`LinkError`] if it has not proved it by `limit`, or is not admitted.
pub fn accept(
    stream: TcpStream,
    secret: &Secret,
    plan: SocketPlan,
    silence: Duration,
    limit: Duration,
    admit: impl FnOnce(&Hello) -> Result<(), String>,
) -> Result<(Hello, LinkReader, LinkWriter), LinkError> {
    plan.apply(&stream, silence)?;
    let deadline = Instant::now() + limit;
    let mut from = Proving { stream, deadline };
    from.exchange_preambles()?;
    let mut noise = step(noise(secret, &Preamble::encode()).and_then(Builder::build_responder))?;
    step(noise.read_message(&from.receive()?, &mut [0; MESSAGE]))?;
    from.send(&make(&mut noise)?)?;
    let mut noise = step(noise.into_transport_mode())?;
    let hello = Hello::decode(&open(&mut noise, &from.receive()?)?)?;
    if let Err(reason) = admit(&hello) {
        let words = [&[REFUSED], reason.as_bytes()].concat();
        from.send(&seal(&mut noise, &words)?)?;
        return Err(LinkError::Refused(reason));
    }
    from.send(&seal(&mut noise, &[WELCOME])?)?;
    let (reader, writer) = crate::link::split(from.stream, silence)?;
    Ok((hello, reader, writer))
}
