//! What the daemons of one job know and nobody else does.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use blake2::{Blake2s256, Digest};
use thiserror::Error;

/// Fewest characters of a secret. 16 random ones of base 64 cannot be guessed.
const FEWEST: usize = 16;
/// Most bytes of a file with a secret.
const MOST: u64 = 4096;

/// The key that every link of a job is proved with.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// A secret that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It could be guessed.
    #[error("the secret has {0} characters: it needs at least {FEWEST}, drawn at random")]
    Short(usize),
    /// The file cannot be read.
    #[error("cannot read secret file `{path}`: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Others can read it too.
    #[error("secret file `{path}` is open to others (mode {mode:o}): make it mode 600")]
    Open {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
}

impl Secret {
    /// The secret that this text is; white space around it does not count.
    ///
    /// # Errors
    /// [`SecretError::Short`] if it could be guessed.
    pub fn from_text(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if text.len() < FEWEST {
            return Err(SecretError::Short(text.len()));
        }
        let mut hash = Blake2s256::new();
        hash.update(b"forebay secret 1\0");
        hash.update(text);
        Ok(Self(hash.finalize().into()))
    }

    /// The secret in a file that only this user can read.
    ///
    /// # Errors
    /// [`SecretError`] if it cannot be read, others can read it, or it could be guessed.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let shown = || path.display().to_string();
        let failed = |source| SecretError::File {
            path: shown(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretError::Open {
                path: shown(),
                mode,
            });
        }
        let mut text = String::new();
        file.take(MOST).read_to_string(&mut text).map_err(failed)?;
        Self::from_text(&text)
    }

    /// A number that tells this job from others and does not give its secret away.
    pub fn job(&self) -> u64 {
        let mut hash = Blake2s256::new();
        hash.update(b"forebay job 1\0");
        hash.update(self.0);
        let hash: [u8; 32] = hash.finalize().into();
        hash[..8]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_that_could_be_guessed_or_read_by_others_is_refused() {
        assert!(matches!(
            Secret::from_text("  short  "),
            Err(SecretError::Short(5))
        ));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).unwrap();
        };
        mode(0o640);
        let open = Secret::from_file(&path).unwrap_err();
        assert!(open.to_string().contains("mode 640"), "{open}");
        mode(0o600);
        let secret = Secret::from_file(&path).unwrap();
        assert_eq!(secret, Secret::from_text(" 0123456789abcdef ").unwrap());
        assert_ne!(secret, Secret::from_text("0123456789abcdeg").unwrap());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
