//! Real daemons in processes of their own, a data set of real files and a plain client.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod cluster;

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_dataset::index::{FieldSpec, IndexBuilder};
use forebay_dataset::{BlockSize, ByteRange, ErrorKind, Fingerprint, SegmentIndex, ShardIndex};
use forebay_origin::{IndexFile, fingerprint_of};
use forebay_residency::{MapIdentity, NodePaths, ReadOutcome, ShardPaths, SharedShard};
use forebay_service::{Outside, ServePlan, ServeSettings, Source, serve};
use forebay_wire::{Reply, Request, StageRange, read_frame};

pub(crate) const BLOCK: u64 = 4096;
const SHARD: ShardIndex = ShardIndex(0);
/// Nothing here takes this long; it ends a test that would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Set to the cache folder in the processes that serve; `wait` in the other makes them take over.
const CACHE: &str = "FOREBAY_TEST_CACHE";
const TAKE_OVER: &str = "FOREBAY_TEST_TAKE_OVER";
/// Serves if the environment says so. Every test file has a test `helper_that_serves` that calls
/// this: the processes of daemons are this program with only that test.
pub(crate) fn serve_if_asked() {
    let Some(cache) = std::env::var_os(CACHE) else {
        return;
    };
    let env = ServeSettings::from_env(|name| std::env::var(name).ok()).unwrap();
    let settings = ServeSettings {
        cache: Some(cache.into()),
        free_floor: Some("0".into()),
        ..env
    };
    let plan = ServePlan::resolve(&[(Source::CommandLine, settings)], None, |_| 1 << 30).unwrap();
    let take_over = std::env::var_os(TAKE_OVER).is_some();
    let served = serve(plan, Outside::default(), take_over, || say("ready"));
    say(&format!("{:?}", served.unwrap()));
    std::process::exit(0);
}

/// On a line of its own, whatever the test harness has begun to print.
fn say(word: &str) {
    println!("\nforebay {word}");
    std::io::stdout().flush().unwrap();
}

/// A daemon; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Daemon {
    /// Starts one and does not wait for it.
    pub(crate) fn spawn(cache: &Path, settings: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "helper_that_serves",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CACHE, cache)
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Starts one that waits for the lock, as a client's does.
    pub(crate) fn spawn_waiting(cache: &Path) -> Self {
        Self::spawn(cache, &[(TAKE_OVER, "1")])
    }

    /// Starts one and waits until clients can connect.
    pub(crate) fn start(cache: &Path, settings: &[(&str, &str)]) -> Self {
        let mut daemon = Self::spawn(cache, settings);
        assert_eq!(daemon.said(), "ready");
        daemon
    }

    /// The next word of the daemon.
    pub(crate) fn said(&mut self) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let word = lines.find_map(|line| line.strip_prefix("forebay ").map(str::to_owned));
        word.unwrap_or_else(|| "nothing".to_owned())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Stops it, and returns when all of its threads stand still.
    pub(crate) fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
        let pid = rustix::process::Pid::from_child(&self.child);
        let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
        assert!(stopped.unwrap().is_some_and(|(_, status)| status.stopped()));
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the process and returns its last word.
    pub(crate) fn end(mut self) -> String {
        let word = self.said();
        assert!(self.child.wait().unwrap().success());
        word
    }

    /// Waits for the process; true if it ended well.
    pub(crate) fn succeeds(mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_shared_memory(self.pid());
    }
}

/// Libfabric's shm has files that a process that is killed leaves behind.
fn remove_shared_memory(pid: u32) {
    let prefix = format!("{pid}:");
    let Ok(files) = std::fs::read_dir("/dev/shm") else {
        return;
    };
    let named = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with(&prefix);
    for file in files.flatten().filter(named) {
        let _ = std::fs::remove_file(file.path());
    }
}

/// A data set of files that share one shard.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) cache: tempfile::TempDir,
    pub(crate) shard: Vec<u8>,
    pub(crate) generation: u128,
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 | 1
}

impl World {
    /// Files of these lengths.
    pub(crate) fn new(lens: &[u64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut fingerprints = Vec::new();
        for (number, len) in lens.iter().enumerate() {
            let path = folder.path().join(format!("{number}.bin"));
            let salt = (number as u64) << 32;
            let bytes: Vec<u8> = (0..*len).map(|at| byte(salt ^ at)).collect();
            std::fs::write(&path, bytes).unwrap();
            fingerprints.push(fingerprint_of(&std::fs::File::open(path).unwrap()).unwrap());
        }
        Self::index_of(folder, &fingerprints)
    }

    /// A data set whose first file hangs whoever opens it, and whose second is good.
    pub(crate) fn with_a_file_that_hangs() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mkfifo")
            .arg(folder.path().join("0.bin"))
            .status();
        assert!(made.unwrap().success());
        let good = folder.path().join("1.bin");
        std::fs::write(&good, vec![7; 3 * BLOCK as usize]).unwrap();
        let hangs = Fingerprint {
            size: BLOCK,
            mtime_ns: 0,
            inode: 0,
        };
        let good = fingerprint_of(&std::fs::File::open(good).unwrap()).unwrap();
        Self::index_of(folder, &[hangs, good])
    }

    fn index_of(folder: tempfile::TempDir, fingerprints: &[Fingerprint]) -> Self {
        let field = FieldSpec {
            name: "x".to_owned(),
            dtype: "|u1".parse().unwrap(),
        };
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let mut builder = IndexBuilder::new(".", vec![field], size).unwrap();
        for (number, fingerprint) in fingerprints.iter().enumerate() {
            builder
                .add_segment(&format!("{number}.bin"), *fingerprint)
                .unwrap();
        }
        let path = folder.path().join("index");
        builder
            .write(&mut std::fs::File::create(&path).unwrap())
            .unwrap();
        let index = IndexFile::open(&path).unwrap();
        let mut shard = vec![0; index.shard_len(SHARD).unwrap() as usize];
        for number in 0..fingerprints.len() as u32 {
            let segment = index.segment(SegmentIndex(number)).unwrap();
            let path = folder.path().join(segment.path);
            if path.is_file() {
                let bytes = std::fs::read(path).unwrap();
                let start = segment.shard_start as usize;
                shard[start..start + bytes.len()].copy_from_slice(&bytes);
            }
        }
        let (cache, generation) = (tempfile::tempdir().unwrap(), index.generation());
        Self {
            folder,
            cache,
            shard,
            generation,
        }
    }

    pub(crate) fn cache(&self) -> &Path {
        self.cache.path()
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    pub(crate) fn len(&self) -> u64 {
        self.shard.len() as u64
    }

    pub(crate) fn paths(&self) -> ShardPaths {
        ShardPaths::new(
            &ShardPaths::dataset_folder(self.cache(), self.generation),
            SHARD,
        )
    }

    /// The shard as a client sees it.
    pub(crate) fn shared(&self) -> Option<SharedShard> {
        let identity = MapIdentity {
            generation: self.generation,
            shard: SHARD,
            block_size: BlockSize::new(BLOCK as u32).unwrap(),
            shard_len: self.len(),
        };
        SharedShard::open(self.paths(), &identity).unwrap()
    }

    /// True if the bytes were resident and are the origin's; false if they are absent.
    pub(crate) fn read(&self, shared: &SharedShard, start: u64, len: u64) -> bool {
        let mut out = vec![0xEE; len as usize];
        match shared.read(ByteRange::new(start, len).unwrap(), &mut out) {
            ReadOutcome::Done => {
                let wanted = &self.shard[start as usize..(start + len) as usize];
                assert!(out == wanted, "wrong bytes in [{start}, {})", start + len);
                true
            }
            ReadOutcome::Absent => false,
            ReadOutcome::Failed(error) => panic!("the device failed: {error}"),
        }
    }
}

/// A connection to a daemon.
pub(crate) struct Link {
    pub(crate) stream: UnixStream,
}

impl Link {
    /// `None` where no daemon listens.
    pub(crate) fn try_connect(cache: &Path) -> Option<Self> {
        let stream = NodePaths::new(cache.to_owned()).connect().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Self { stream })
    }

    pub(crate) fn connect(cache: &Path) -> Self {
        Self::try_connect(cache).expect("a daemon listens")
    }

    /// `None` if the daemon closed the connection.
    pub(crate) fn ask(&mut self, request: &Request) -> Option<Reply> {
        self.stream.write_all(&request.encode()).ok()?;
        self.hear()
    }

    /// The next reply.
    pub(crate) fn hear(&mut self) -> Option<Reply> {
        let mut payload = Vec::new();
        let kind = read_frame(&mut self.stream, &mut payload).ok()??;
        Some(Reply::decode(kind, &payload).unwrap())
    }

    pub(crate) fn open(&mut self, world: &World) -> Option<Reply> {
        self.ask(&Request::Open {
            index: world.index().display().to_string(),
            root: None,
            generation: world.generation,
        })
    }

    pub(crate) fn stage(&mut self, start: u64, len: u64, deadline: Duration) -> Option<Reply> {
        let range = StageRange {
            shard: 0,
            start,
            len,
        };
        self.ask(&Request::Stage {
            dataset: 0,
            deadline_ms: deadline.as_millis() as u32,
            takes_bytes: false,
            ranges: vec![range],
        })
    }
}

/// The kind and message of a refusal.
pub(crate) fn refusal(reply: Option<Reply>) -> (ErrorKind, String) {
    match reply {
        Some(Reply::Failed { kind, message }) => (ErrorKind::ALL[kind as usize], message),
        other => panic!("no refusal: {other:?}"),
    }
}

/// An address that is free now, on a loopback network of this process's own.
pub(crate) fn free_address(node: usize) -> String {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let listening =
        std::net::TcpListener::bind(format!("127.{high}.{low}.{}:0", node + 1)).unwrap();
    listening.local_addr().unwrap().to_string()
}

/// Waits until `true`, up to [`PATIENCE`].
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
