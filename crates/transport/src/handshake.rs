//! The proof that both sides have the job's secret, and who they are.
//!
//! Noise `NNpsk0`: two messages that only holders of the key can make, with fresh keys of both
//! sides in them. The first alone could be played back, so nothing is believed before the third,
//! the hello of the side that dialled, opens under the keys of this very link.
//!
//! The first two messages also say whether their side wants the link encrypted from then on. It is
//! if either does; which of the two said so is under the proof, as all of it is.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use forebay_wire::{Hello, Preamble};
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::link::{LinkReader, LinkWriter};
use crate::sealed::Keys;
use crate::{LinkError, Secret, SocketPlan};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Most bytes of one message of the proof.
const MESSAGE: usize = 4096;
/// First byte of the last message: welcome, or the reason for a refusal.
const WELCOME: u8 = 0;
const REFUSED: u8 = 1;
/// What a side says of encryption: that it wants it. Nothing is no wish.
const ENCRYPTS: &[u8] = &[1];

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

fn make(noise: &mut HandshakeState, encrypts: bool) -> Result<Vec<u8>, LinkError> {
    let mut message = vec![0; MESSAGE];
    let wish = if encrypts { ENCRYPTS } else { &[] };
    let len = step(noise.write_message(wish, &mut message))?;
    message.truncate(len);
    Ok(message)
}

/// Reads the other side's; true if it wants the link encrypted.
fn take(noise: &mut HandshakeState, message: &[u8]) -> Result<bool, LinkError> {
    let mut wish = [0; MESSAGE];
    let len = step(noise.read_message(message, &mut wish))?;
    match &wish[..len] {
        [] => Ok(false),
        ENCRYPTS => Ok(true),
        _ => Err(LinkError::Unproven),
    }
}

fn seal(keys: &StatelessTransportState, words: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut message = vec![0; MESSAGE];
    let len = step(keys.write_message(0, words, &mut message))?;
    message.truncate(len);
    Ok(message)
}

fn open(keys: &StatelessTransportState, message: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut words = vec![0; MESSAGE];
    let len = step(keys.read_message(0, message, &mut words))?;
    words.truncate(len);
    Ok(words)
}

/// Proves the secret to the side that was dialled, and has it prove it. Returns the keys too if the
/// link is encrypted from here on, as it is if either side `encrypts`.
pub(crate) fn prove(
    stream: TcpStream,
    secret: &Secret,
    hello: &Hello,
    encrypts: bool,
    deadline: Instant,
) -> Result<(TcpStream, Option<Keys>), LinkError> {
    let mut to = Proving { stream, deadline };
    to.exchange_preambles()?;
    let mut noise = step(noise(secret, &Preamble::encode()).and_then(Builder::build_initiator))?;
    to.send(&make(&mut noise, encrypts)?)?;
    let is_sealed = take(&mut noise, &to.receive()?)?;
    let keys = step(noise.into_stateless_transport_mode())?;
    to.send(&seal(&keys, &hello.encode())?)?;
    let words = open(&keys, &to.receive()?)?;
    match words.split_first() {
        // One that was built before links were encrypted.
        Some((&WELCOME, [])) if encrypts && !is_sealed => {
            Err(LinkError::Refused("it does not encrypt links".to_owned()))
        }
        Some((&WELCOME, [])) => Ok((to.stream, is_sealed.then(|| Keys::new(keys)))),
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
    let is_sealed = take(&mut noise, &from.receive()?)? || plan.encrypts;
    from.send(&make(&mut noise, is_sealed)?)?;
    let keys = step(noise.into_stateless_transport_mode())?;
    let hello = Hello::decode(&open(&keys, &from.receive()?)?)?;
    if let Err(reason) = admit(&hello) {
        let words = [&[REFUSED], reason.as_bytes()].concat();
        from.send(&seal(&keys, &words)?)?;
        return Err(LinkError::Refused(reason));
    }
    from.send(&seal(&keys, &[WELCOME])?)?;
    let keys = is_sealed.then(|| Keys::new(keys));
    let (reader, writer) = crate::link::split(from.stream, keys, silence)?;
    Ok((hello, reader, writer))
}
