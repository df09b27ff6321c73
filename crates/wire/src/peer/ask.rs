//! What the side asks that dialled.

use super::{BlockRun, MAX_RUNS, peer_frame};
use crate::WireError;
use crate::codec::{Take, put_optional_text, put_text};
use crate::published::NameAsk;

/// From the side that dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Take a data set into use.
    Open {
        /// Number of the ask.
        id: u64,
        /// Generation of the index.
        generation: u128,
        /// Index file, absolute.
        index: String,
        /// Folder of the origin files, if not the recorded one.
        root: Option<String>,
    },
    /// Make blocks resident and send them.
    Fetch {
        /// Number of the ask.
        id: u64,
        /// Generation of the index.
        generation: u128,
        /// Time that the asker will wait.
        deadline_ms: u32,
        /// Whether blocks may be lent: the asker reads memory over the fabric.
        may_lend: bool,
        /// At most [`MAX_RUNS`].
        runs: Vec<BlockRun>,
    },
    /// Are you there?
    Ping {
        /// Number of the ask.
        id: u64,
    },
    /// Where your memory lies for who reads it over a fabric.
    Fabric {
        /// Number of the ask.
        id: u64,
        /// Name of the asker's provider, such as `tcp;ofi_rxm`.
        provider: String,
    },
    /// What was lent is not needed any more. It has no answer.
    Return {
        /// Number of the loan.
        loan: u64,
    },
    /// About published files.
    Name {
        /// Number of the ask.
        id: u64,
        /// What.
        ask: NameAsk,
    },
}

impl Ask {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Open {
                id,
                generation,
                index,
                root,
            } => peer_frame(0x41, *id, |out| {
                out.extend_from_slice(&generation.to_le_bytes());
                put_text(out, index);
                put_optional_text(out, root.as_deref());
            }),
            Self::Fetch {
                id,
                generation,
                deadline_ms,
                may_lend,
                runs,
            } => peer_frame(0x42, *id, |out| {
                out.extend_from_slice(&generation.to_le_bytes());
                out.extend_from_slice(&deadline_ms.to_le_bytes());
                out.push(u8::from(*may_lend));
                out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
                runs.iter().for_each(|run| run.put(out));
            }),
            Self::Ping { id } => peer_frame(0x43, *id, |_| {}),
            Self::Fabric { id, provider } => peer_frame(0x44, *id, |out| put_text(out, provider)),
            Self::Return { loan } => peer_frame(0x45, *loan, |_| {}),
            Self::Name { id, ask } => peer_frame(ask.kind(), *id, |out| ask.put(out)),
        }
    }

    /// Reads a payload of this kind.
    ///
    /// # Errors
    /// [`WireError`] if it is not one whole message.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let is_of_names = NameAsk::KINDS.contains(&kind);
        if !is_of_names && !(0x41..=0x45).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        let mut from = Take(payload);
        let id = from.u64()?;
        let ask = match kind {
            0x41 => Self::Open {
                id,
                generation: from.u128()?,
                index: from.text()?,
                root: from.optional_text()?,
            },
            0x42 => {
                let (generation, deadline_ms) = (from.u128()?, from.u32()?);
                let may_lend = from.flag()?;
                let count = from.count("list of runs", MAX_RUNS)?;
                let runs = (0..count)
                    .map(|_| BlockRun::take(&mut from))
                    .collect::<Result<_, _>>()?;
                Self::Fetch {
                    id,
                    generation,
                    deadline_ms,
                    may_lend,
                    runs,
                }
            }
            0x43 => Self::Ping { id },
            0x44 => Self::Fabric {
                id,
                provider: from.text()?,
            },
            0x45 => Self::Return { loan: id },
            _ => Self::Name {
                id,
                ask: NameAsk::take(kind, &mut from)?,
            },
        };
        from.end()?;
        Ok(ask)
    }
}
