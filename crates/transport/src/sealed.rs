//! Encryption of what a link carries, where one of its sides wants that.
//!
//! Each way is a row of records: two bytes with a length, and so many bytes that are sealed with
//! ChaCha20-Poly1305 under the keys of the proof. They are numbered from 1, since number 0 was the
//! last message of the proof; one that is altered, left out, repeated or moved does not open.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use snow::StatelessTransportState;

/// The keys of one link, both ways.
pub(crate) type Keys = Arc<StatelessTransportState>;

/// Bytes of the length before a record.
const LENGTH: usize = 2;
/// Most sealed bytes of a record: what Noise allows.
const MOST: usize = 65_535;
/// What sealing adds.
const TAG: usize = 16;
/// Most bytes in a record.
const PLAIN: usize = MOST - TAG;

/// Seals what is sent.
pub(crate) struct Sealing {
    keys: Keys,
    next: u64,
    record: Vec<u8>,
}

impl Sealing {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            next: 1,
            record: Vec::new(),
        }
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        bytes
            .chunks(PLAIN)
            .try_for_each(|part| self.send_record(stream, part))
    }

    /// Sends `len` bytes of a file.
    pub(crate) fn send_file(
        &mut self,
        stream: &mut TcpStream,
        file: &File,
        offset: u64,
        len: u64,
    ) -> io::Result<()> {
        let mut part = vec![0; usize::try_from(len).unwrap_or(PLAIN).min(PLAIN)];
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(PLAIN).min(PLAIN);
            file.read_exact_at(&mut part[..left], at)?;
            self.send_record(stream, &part[..left])?;
            at += left as u64;
        }
        Ok(())
    }

    fn send_record(&mut self, stream: &mut TcpStream, part: &[u8]) -> io::Result<()> {
        self.record.resize(LENGTH + part.len() + TAG, 0);
        let (length, sealed) = self.record.split_at_mut(LENGTH);
        let len = self.keys.write_message(self.next, part, sealed);
        let len = len.map_err(io::Error::other)?;
        self.next += 1;
        // At most `MOST`, as Noise has it.
        length.copy_from_slice(&(len as u16).to_le_bytes());
        stream.write_all(&self.record[..LENGTH + len])
    }
}

/// Opens what arrives.
pub(crate) struct Opening {
    keys: Keys,
    next: u64,
    /// A record, of which `filled` bytes have come.
    record: Vec<u8>,
    filled: usize,
    /// What the last one held, handed out up to `at`.
    plain: Vec<u8>,
    at: usize,
}

impl Opening {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            next: 1,
            record: vec![0; LENGTH],
            filled: 0,
            plain: Vec::new(),
            at: 0,
        }
    }

    /// Reads as [`Read::read`] does. After an error that says to try again it goes on where it was.
    pub(crate) fn read(&mut self, stream: &mut TcpStream, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.plain.len() && !self.next_record(stream)? {
            return Ok(0);
        }
        let len = out.len().min(self.plain.len() - self.at);
        out[..len].copy_from_slice(&self.plain[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }

    /// False if the stream ended between two records.
    fn next_record(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        while self.filled < LENGTH {
            if !self.read_on(stream, LENGTH)? {
                return Ok(false);
            }
        }
        let sealed = usize::from(u16::from_le_bytes([self.record[0], self.record[1]]));
        if sealed <= TAG {
            return Err(broken());
        }
        self.record.resize(LENGTH + sealed, 0);
        while self.filled < LENGTH + sealed {
            self.read_on(stream, LENGTH + sealed)?;
        }
        self.plain.resize(sealed - TAG, 0);
        self.at = self.plain.len();
        let opened = (self.keys).read_message(self.next, &self.record[LENGTH..], &mut self.plain);
        if opened.map_err(|_| broken())? != self.plain.len() {
            return Err(broken());
        }
        (self.at, self.filled) = (0, 0);
        self.next += 1;
        Ok(true)
    }

    /// False if the stream ended before the first byte of a record.
    fn read_on(&mut self, stream: &mut TcpStream, end: usize) -> io::Result<bool> {
        match stream.read(&mut self.record[self.filled..end])? {
            0 if self.filled == 0 => Ok(false),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.filled += read;
                Ok(true)
            }
        }
    }
}

fn broken() -> io::Error {
    let message = "what arrived was not sealed by the peer, or not in this order";
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;
    use snow::Builder;

    use super::*;

    /// What both sides have after a proof.
    fn keys() -> (Keys, Keys) {
        let builder = || {
            let pattern = "Noise_NN_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
            Builder::new(pattern)
        };
        let mut one = builder().build_initiator().unwrap();
        let mut other = builder().build_responder().unwrap();
        let (mut message, mut nothing) = ([0; 200], [0; 200]);
        let len = one.write_message(&[], &mut message).unwrap();
        other.read_message(&message[..len], &mut nothing).unwrap();
        let len = other.write_message(&[], &mut message).unwrap();
        one.read_message(&message[..len], &mut nothing).unwrap();
        let keys =
            [one, other].map(|side| Keys::new(side.into_stateless_transport_mode().unwrap()));
        keys.into()
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        (near, listening.accept().unwrap().0)
    }

    /// The records that these messages are sent as.
    fn sealed(keys: Keys, messages: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut near, mut far) = pair();
        let mut sealing = Sealing::new(keys);
        let send = |message: &&[u8]| {
            sealing.send(&mut near, message).unwrap();
            let mut record = vec![0; LENGTH + message.len() + TAG];
            far.read_exact(&mut record).unwrap();
            record
        };
        messages.iter().map(send).collect()
    }

    /// All that opens of what arrives, and how it ends.
    fn opened(keys: Keys, arrives: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let (mut near, mut far) = pair();
        let bytes = arrives.to_vec();
        let sends = std::thread::spawn(move || near.write_all(&bytes));
        let (mut opening, mut out) = (Opening::new(keys), Vec::new());
        let mut part = [0; 1000];
        let end = loop {
            match opening.read(&mut far, &mut part) {
                Ok(0) => break Ok(()),
                Ok(read) => out.extend_from_slice(&part[..read]),
                Err(error) => break Err(error),
            }
        };
        drop(far);
        let _ = sends.join().unwrap();
        (out, end)
    }

    #[test]
    fn whatever_is_done_to_sealed_records_is_noticed() {
        let (here, there) = keys();
        let records = sealed(here, &[b"the first", b"the second", b"the third"]);
        let all = records.concat();
        let (out, end) = opened(there.clone(), &all);
        assert!(end.is_ok());
        assert_eq!(out, b"the firstthe secondthe third");
        let moved = |order: &[usize]| -> Vec<u8> {
            order.iter().flat_map(|at| records[*at].clone()).collect()
        };
        for order in [&[1, 0, 2][..], &[0, 0, 1], &[0, 2], &[1, 2]] {
            let (out, end) = opened(there.clone(), &moved(order));
            assert!(end.is_err(), "{order:?}");
            assert!(b"the first".starts_with(&out), "{order:?}");
        }
        for at in 0..all.len() {
            let mut damaged = all.clone();
            damaged[at] ^= 0x10;
            let (out, end) = opened(there.clone(), &damaged);
            assert!(end.is_err(), "byte {at}");
            assert!(b"the firstthe second".starts_with(&out), "byte {at}");
        }
        for short in [0u16, 1, TAG as u16] {
            let (_, end) = opened(
                there.clone(),
                &[&short.to_le_bytes()[..], &[0; 40]].concat(),
            );
            assert_eq!(end.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let (_, end) = opened(there, &all[..all.len() - 1]);
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_sent_arrives_in_whatever_pieces(
            lens in proptest::collection::vec(1usize..200_000, 1..4),
        ) {
            let (here, there) = keys();
            let messages: Vec<Vec<u8>> = lens
                .iter()
                .map(|len| (0..*len).map(|at| (at * 31) as u8).collect())
                .collect();
            let (mut near, mut far) = pair();
            let wanted = messages.concat();
            let sends = std::thread::spawn(move || {
                let mut sealing = Sealing::new(here);
                messages.iter().try_for_each(|message| sealing.send(&mut near, message))
            });
            let (mut opening, mut out) = (Opening::new(there), Vec::new());
            let mut part = vec![0; 70_001];
            loop {
                match opening.read(&mut far, &mut part).unwrap() {
                    0 => break,
                    read => out.extend_from_slice(&part[..read]),
                }
            }
            sends.join().unwrap().unwrap();
            prop_assert!(out == wanted);
        }
    }
}
