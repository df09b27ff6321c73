//! What the daemon is given by this program: stores of objects, members that come and go, and an
//! etcd for names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_members::{EtcdNames, MeetingError, NameEntry, Said, Watch};
use forebay_service::{
    Kept, NameDirectory, OpenDirectory, Outside, PublishedFile, Roll, ServePlan,
};

use crate::Failure;
use crate::stores::stores_in_class;

/// All that a daemon of this plan needs. `place`: where members come and go, if they do.
pub(crate) fn outside(plan: &ServePlan, place: Option<&str>) -> Result<Outside, Failure> {
    let peers = plan.peers.as_ref();
    let roll = match (place, peers) {
        (Some(place), Some(peers)) => {
            let watch = forebay_members::watch(place, peers.name()).map_err(Failure::usage)?;
            Some(Box::new(Watched(watch)) as Box<dyn Roll>)
        }
        _ => None,
    };
    let names = peers.and_then(|peers| peers.names.as_deref());
    Ok(Outside {
        stores: Some(stores_in_class(plan.dscp)?),
        roll,
        names: names.map(directory).transpose()?,
    })
}

struct Watched(Box<dyn Watch>);

impl Roll for Watched {
    fn members(&mut self) -> Result<Vec<String>, String> {
        self.0.members().map_err(|error| error.to_string())
    }
}

fn directory(place: &str) -> Result<OpenDirectory, Failure> {
    let Ok(Said::Etcd { endpoint, prefix }) = Said::parse(place) else {
        let message = format!("`names` must be `etcd://HOST:PORT/PREFIX`: `{place}`");
        return Err(Failure::usage(message));
    };
    Ok(Box::new(move |job: &str| {
        let names = EtcdNames::open(&endpoint, &prefix, job).map_err(said)?;
        Ok(Arc::new(InEtcd(names)) as Arc<dyn NameDirectory>)
    }))
}

/// Names of published files in an etcd.
struct InEtcd(EtcdNames);

fn said(error: MeetingError) -> String {
    error.to_string()
}

/// What is no file, or of another version, is nobody's.
fn kept(entry: &NameEntry) -> Option<Kept> {
    let file = PublishedFile::decode(&entry.value).ok()?;
    (file.name == entry.name).then_some(Kept {
        file,
        revision: entry.revision,
    })
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

impl NameDirectory for InEtcd {
    fn epoch(&self) -> u64 {
        self.0.epoch()
    }

    fn get(&self, name: &str, until: Instant) -> Result<Option<Kept>, String> {
        let entry = self.0.get(name, left(until)).map_err(said)?;
        Ok(entry.as_ref().and_then(kept))
    }

    fn put(&self, file: &PublishedFile, seen: u64, until: Instant) -> Result<bool, String> {
        let put = |seen| {
            let put = (self.0).put(&file.name, &file.encode(), seen, left(until));
            put.map_err(said)
        };
        if put(seen)? {
            return Ok(true);
        }
        // Whoever publishes takes the place of what `get` sees nothing in, and nobody else does.
        match self.0.get(&file.name, left(until)).map_err(said)? {
            Some(entry) if seen == 0 && kept(&entry).is_none() => put(entry.revision),
            _ => Ok(false),
        }
    }

    fn remove(&self, name: &str, seen: u64, until: Instant) -> Result<bool, String> {
        self.0.remove(name, seen, left(until)).map_err(said)
    }

    fn list(&self, after: &str, most: usize) -> Result<Vec<PublishedFile>, String> {
        let entries = self.0.list(after, most).map_err(said)?;
        let files = entries.iter().filter_map(|entry| Some(kept(entry)?.file));
        Ok(files.collect())
    }

    fn watch(&self, came: &mut dyn FnMut(PublishedFile) -> bool) -> Result<(), String> {
        let came = |entry: NameEntry| kept(&entry).is_none_or(|kept| came(kept.file));
        self.0.watch(came).map_err(said)
    }

    fn close(&self) {
        self.0.close();
    }
}
