//! Where a node's cache, its daemon's socket and its lock lie: one place for daemon and clients.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use xxhash_rust::xxh3::xxh3_128;

/// Files of one cache folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePaths {
    folder: PathBuf,
}

const SOCKET: &str = "daemon.sock";

impl NodePaths {
    /// The files of the cache in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder used where none is named: `FOREBAY_CACHE`, else `$XDG_CACHE_HOME/forebay`, else
    /// `~/.cache/forebay`. `None` if the environment names no home either.
    pub fn default_folder(env: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
        let named = |name: &str| {
            env(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        named("FOREBAY_CACHE")
            .or_else(|| named("XDG_CACHE_HOME").map(|home| home.join("forebay")))
            .or_else(|| named("HOME").map(|home| home.join(".cache/forebay")))
    }

    /// The cache folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where samplers write their plans for the daemon to open.
    pub fn plans(&self) -> PathBuf {
        self.folder.join("plans")
    }

    /// Where the index of a folder's files is kept if none is named, by the folder's path without
    /// links.
    pub fn folder_index(&self, root: &Path) -> PathBuf {
        let name = xxh3_128(root.as_os_str().as_encoded_bytes());
        self.folder
            .join("trees")
            .join(format!("{name:032x}.forebay"))
    }

    /// Where the daemon notes which files it has published.
    pub fn published(&self) -> PathBuf {
        self.folder.join("published")
    }

    /// Held by the daemon for as long as it lives.
    pub fn lock(&self) -> PathBuf {
        self.folder.join("daemon.lock")
    }

    /// What a daemon that a client started has to say.
    pub fn log(&self) -> PathBuf {
        self.folder.join("daemon.log")
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Makes the folder, for this user alone; refuses one that belongs to another.
    pub fn create_folder(&self) -> io::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let owner = std::fs::metadata(&self.folder)?.uid();
        let user = rustix::process::geteuid().as_raw();
        if owner != user {
            let message = format!("it belongs to user {owner}, this is user {user}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(())
    }

    /// Connects to the daemon, or says at once that it cannot: `WouldBlock` where as many wait for
    /// the daemon already as may.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let (_open, socket) = self.short_socket()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&made, &SocketAddrUnix::new(socket)?)?;
        let stream = UnixStream::from(made);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Listens in place of a daemon that is gone. The caller holds the lock.
    pub fn listen(&self) -> io::Result<UnixListener> {
        match std::fs::remove_file(self.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (_open, socket) = self.short_socket()?;
        UnixListener::bind(socket)
    }

    /// A socket address holds 108 bytes and cache folders can be longer, so the path goes through
    /// the open folder.
    fn short_socket(&self) -> io::Result<(File, PathBuf)> {
        let folder = File::open(&self.folder)?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
        Ok((folder, PathBuf::from(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_follows_the_environment() {
        let folder = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect();
            NodePaths::default_folder(|name| {
                set.iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            folder(&[("FOREBAY_CACHE", "/l"), ("HOME", "/h")]),
            Some("/l".into())
        );
        assert_eq!(
            folder(&[("FOREBAY_CACHE", ""), ("XDG_CACHE_HOME", "/x")]),
            Some("/x/forebay".into())
        );
        assert_eq!(folder(&[("HOME", "/h")]), Some("/h/.cache/forebay".into()));
        assert_eq!(folder(&[]), None);
    }

    #[test]
    fn sockets_work_in_folders_with_long_names() {
        let folder = tempfile::tempdir().unwrap();
        let paths = NodePaths::new(folder.path().join("x".repeat(200)));
        paths.create_folder().unwrap();
        let _listener = paths.listen().unwrap();
        paths.connect().unwrap();
    }
}
