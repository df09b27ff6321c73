//! Signs of life in files: who is there writes its file again and again, others see it change.
//!
//! Nothing is compared but what the file holds, so clocks of nodes and servers may say what they
//! like. A watcher that stood still itself counts that as one look.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a file is written.
const BEAT: Duration = Duration::from_secs(2);
/// How often a pulse is felt.
const FEEL: Duration = Duration::from_secs(5);
/// One whose file did not change for so many looks in a row is dead.
const LOOKS: u32 = 3;
/// Nodes whose pulse is felt by one.
const NEIGHBOURS: usize = 3;
/// Most bytes of a beat.
const MOST: u64 = 64;

/// Writes a file again and again; on drop it is left alone.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beating: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Heartbeat {
    /// Makes the file.
    pub(crate) fn start(file: PathBuf) -> io::Result<Self> {
        beat(&file, 0)?;
        let (stop, ended) = channel::<()>();
        let beats = move || {
            let mut count = 0u64;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(BEAT) {
                count += 1;
                // One that fails is made up for by the next.
                let _ = beat(&file, count);
            }
        };
        let thread = std::thread::Builder::new().name("heartbeat".into());
        Ok(Self {
            beating: Some((stop, thread.spawn(beats)?)),
        })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.beating.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn beat(file: &Path, count: u64) -> io::Result<()> {
    writeln!(File::create(file)?, "{count} {}", std::process::id())
}

/// What was seen of others.
#[derive(Debug, Default)]
pub(crate) struct Pulses {
    felt: Option<Instant>,
    seen: HashMap<String, (Vec<u8>, u32)>,
}

impl Pulses {
    /// Feels the pulse of those after `me` in `names`, if it is time to. Returns who is dead.
    pub(crate) fn feel(
        &mut self,
        names: &[String],
        me: &str,
        file: impl Fn(&str) -> PathBuf,
    ) -> Vec<String> {
        if self.felt.is_some_and(|felt| felt.elapsed() < FEEL) {
            return Vec::new();
        }
        self.felt = Some(Instant::now());
        let read = |name: &str| {
            let mut held = Vec::new();
            let file = File::open(file(name)).ok()?;
            file.take(MOST).read_to_end(&mut held).ok().map(|_| held)
        };
        let others = neighbours(names, me);
        let held = others.map(|name| (name.to_owned(), read(name)));
        let held: Vec<_> = held.collect();
        self.look(held)
    }

    /// One look: what the files hold now, `None` for one that cannot be read.
    fn look(&mut self, held: Vec<(String, Option<Vec<u8>>)>) -> Vec<String> {
        let mut before = std::mem::take(&mut self.seen);
        let mut dead = Vec::new();
        for (name, held) in held {
            let Some(held) = held else { continue };
            let same = match before.remove(&name) {
                Some((seen, same)) if seen == held => same + 1,
                _ => 0,
            };
            if same >= LOOKS {
                dead.push(name);
            } else {
                self.seen.insert(name, (held, same));
            }
        }
        dead
    }
}

/// The few that come after one in a ring.
fn neighbours<'a>(names: &'a [String], me: &str) -> impl Iterator<Item = &'a str> {
    let after = names.partition_point(|name| name.as_str() <= me);
    let ring = names[after..].iter().chain(&names[..after]);
    let me = me.to_owned();
    let others = ring.map(String::as_str).filter(move |name| *name != me);
    others.take(NEIGHBOURS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn look(pulses: &mut Pulses, held: &[(&str, Option<&str>)]) -> Vec<String> {
        let held = held.iter().map(|(name, held)| {
            let held = held.map(|held| held.as_bytes().to_vec());
            ((*name).to_owned(), held)
        });
        pulses.look(held.collect())
    }

    #[test]
    fn who_does_not_change_for_some_looks_is_dead_and_nobody_else() {
        let mut pulses = Pulses::default();
        for beat in ["0", "1", "2"] {
            let seen = [("a", Some(beat)), ("b", Some("7")), ("c", None)];
            assert!(look(&mut pulses, &seen).is_empty());
        }
        let seen = [("a", Some("3")), ("b", Some("7")), ("c", None)];
        assert_eq!(look(&mut pulses, &seen), ["b"]);
        assert!(look(&mut pulses, &seen).is_empty(), "it is looked at anew");
    }

    #[test]
    fn each_feels_the_pulse_of_the_few_after_it_and_all_are_felt() {
        let all = names("a b c d e");
        let of = |me: &str| neighbours(&all, me).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(of("a"), names("b c d"));
        assert_eq!(of("d"), names("e a b"));
        assert_eq!(
            of("bb"),
            names("c d e"),
            "one that is missing has neighbours"
        );
        assert_eq!(neighbours(&names("a"), "a").count(), 0);
        assert_eq!(neighbours(&[], "a").count(), 0);
    }

    #[test]
    fn a_file_beats_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let heartbeat = Heartbeat::start(file.clone()).unwrap();
        assert!(file.exists());
        std::fs::remove_file(&file).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while !file.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(file.exists(), "the next beat brings it back");
        drop(heartbeat);
        std::fs::remove_file(&file).unwrap();
        assert!(!file.exists());
    }
}
