//! A folder that all nodes of a job see, in which each leaves its address and finds the others'.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::heartbeat::{Heartbeat, Pulses};
use crate::meeting::{Meeting, MeetingError, Watch, wait_for};

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;
/// Before the name of a member that is there.
const HERE: &str = "member-";
/// Before the name of a member whose work is done.
const DONE: &str = "done-";

/// This node's place in the folder; given up on drop.
#[derive(Debug)]
pub struct Rendezvous {
    folder: PathBuf,
    address: String,
    heartbeat: Option<Heartbeat>,
}

impl Rendezvous {
    /// Leaves `address` in the folder of the job `id` below `folder`, which is made for this user
    /// alone.
    ///
    /// # Errors
    /// [`MeetingError::Folder`].
    pub fn join(folder: &Path, id: &str, address: &str) -> Result<Self, MeetingError> {
        let folder = folder.join(format!("forebay-{id}"));
        let mut joined = Self {
            address: address.to_owned(),
            folder,
            heartbeat: None,
        };
        let join = || {
            make_folder(&joined.folder)?;
            Heartbeat::start(joined.here())
        };
        let heartbeat = join().map_err(|source| joined.failed(source))?;
        joined.heartbeat = Some(heartbeat);
        Ok(joined)
    }

    fn here(&self) -> PathBuf {
        self.folder.join(format!("{HERE}{}", self.address))
    }

    fn wait_for(
        &self,
        prefix: &str,
        nodes: usize,
        limit: Duration,
    ) -> Result<Vec<String>, MeetingError> {
        wait_for(nodes, limit, || {
            names(&self.folder, prefix).map_err(|source| self.failed(source))
        })
    }

    fn failed(&self, source: io::Error) -> MeetingError {
        MeetingError::Folder {
            folder: self.folder.display().to_string(),
            source,
        }
    }
}

impl Meeting for Rendezvous {
    fn come(&self, nodes: usize, limit: Duration) -> Result<Vec<String>, MeetingError> {
        self.wait_for(HERE, nodes, limit)
    }

    fn done(&self, nodes: usize, limit: Duration) -> Result<bool, MeetingError> {
        let done = self.folder.join(format!("{DONE}{}", self.address));
        File::create(done).map_err(|source| self.failed(source))?;
        Ok(self.wait_for(DONE, nodes, limit)?.len() >= nodes)
    }

    fn place(&self) -> String {
        format!("file:{}", self.folder.display())
    }

    /// Made by the first that asks, the same for all.
    fn secret(&self) -> Result<Option<PathBuf>, MeetingError> {
        let path = self.folder.join("secret");
        make_secret(&path).map_err(|source| self.failed(source))?;
        Ok(Some(path))
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // No beat comes after it.
        drop(self.heartbeat.take());
        let _ = std::fs::remove_file(self.here());
        // What says that one is done stays for those who wait for it. The last one clears up.
        if names(&self.folder, HERE).is_ok_and(|here| here.is_empty()) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// What follows `prefix` in the names of files there that begin with it, in order.
fn names(folder: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix(prefix));
        names.extend(name.map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Looks who is in the folder, and takes those away who have died.
///
/// Every node feels the pulse of the few that come after it in order, so that the folder's server
/// is asked little however many there are. One that is taken away by mistake is back at its next
/// beat.
pub(crate) struct FolderWatch {
    folder: PathBuf,
    me: String,
    pulses: Pulses,
}

impl FolderWatch {
    /// `folder`: that of the job.
    pub(crate) fn new(folder: PathBuf, me: &str) -> Self {
        Self {
            folder,
            me: me.to_owned(),
            pulses: Pulses::default(),
        }
    }
}

impl Watch for FolderWatch {
    fn members(&mut self) -> Result<Vec<String>, MeetingError> {
        let found = names(&self.folder, HERE);
        let mut found = found.map_err(|source| MeetingError::Folder {
            folder: self.folder.display().to_string(),
            source,
        })?;
        let file = |name: &str| self.folder.join(format!("{HERE}{name}"));
        for dead in self.pulses.feel(&found, &self.me, file) {
            let _ = std::fs::remove_file(file(&dead));
            found.retain(|name| *name != dead);
        }
        Ok(found)
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let owner = std::fs::metadata(folder)?.uid();
    let user = rustix::process::geteuid().as_raw();
    if owner != user {
        let message = format!("it belongs to user {owner}, this is user {user}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Makes a file with a random secret that only this user can read, unless there is one. Of several
/// that do it at once, on whichever nodes, one wins.
///
/// # Errors
/// The system's.
pub fn make_secret(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut random = [0; SECRET_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // Whole before it is there: a link to a file fails where there is one already.
    let mark = &text[..16];
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{mark}"));
    let partial = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
    let linked = written.and_then(|()| std::fs::hard_link(&partial, path));
    let _ = std::fs::remove_file(&partial);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn all_nodes_come_to_the_same_members_and_secret_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["b:2", "a:1", "c:3"];
        let nodes: Vec<_> = std::thread::scope(|scope| {
            let join = |name: &'static str| {
                let folder = folder.path();
                move || {
                    let node = Rendezvous::join(folder, "7.0", name).unwrap();
                    let secret = std::fs::read_to_string(node.secret().unwrap().unwrap()).unwrap();
                    let members = node.members(3, PATIENCE).unwrap();
                    assert!(node.done(3, PATIENCE).unwrap());
                    (node, members, secret)
                }
            };
            let nodes = names.map(|name| scope.spawn(join(name)));
            let mut nodes: Vec<_> = nodes.into_iter().map(|node| node.join().unwrap()).collect();
            // One that has left is still known to be done.
            nodes.pop();
            assert!(nodes[0].0.done(3, Duration::ZERO).unwrap());
            nodes
        });
        for (_, members, secret) in &nodes {
            assert_eq!(*members, ["a:1", "b:2", "c:3"]);
            assert_eq!((secret, secret.trim().len()), (&nodes[0].2, 64));
        }
        let job = folder.path().join("forebay-7.0");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&job), mode(&job.join("secret"))), (0o700, 0o600));
        drop(nodes);
        assert!(!job.exists());
    }

    #[test]
    fn who_does_not_come_and_who_is_too_many_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let first = Rendezvous::join(folder.path(), "1", "a:1").unwrap();
        let missing = first.members(2, Duration::from_millis(10)).unwrap_err();
        assert!(missing.to_string().starts_with("only 1 of 2 nodes came"));
        assert!(!first.done(2, Duration::from_millis(10)).unwrap());
        let _second = Rendezvous::join(folder.path(), "1", "b:1").unwrap();
        let many = first.members(1, PATIENCE).unwrap_err();
        assert!(matches!(many, MeetingError::TooMany { found: 2, .. }));
        let nowhere = Rendezvous::join(Path::new("/proc/none"), "1", "a:1").unwrap_err();
        assert!(nowhere.to_string().contains("/proc/none"), "{nowhere}");
    }

    #[test]
    fn a_secret_that_is_there_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "mine").unwrap();
        make_secret(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
