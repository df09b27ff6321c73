//! A log for other programs: counters under the names that Darshan's own tools give them.

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::log::Log;
use crate::records::lustre::Component;
use crate::records::{self, DxtRecord, HeatmapRecord, LustreRecord, PosixRecord, StdioRecord};

impl Serialize for Log {
    /// An object with the job, the modules, the records of each and the faults in words. Times are
    /// in seconds. A record has the name of its file where the log has it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Log", 8)?;
        out.serialize_field("version", &self.version)?;
        out.serialize_field("byte_order", &self.order)?;
        out.serialize_field("compression", &self.compression)?;
        out.serialize_field("job", &self.job)?;
        out.serialize_field("run_s", &self.job.run_s())?;
        out.serialize_field("modules", &self.modules)?;
        out.serialize_field("records", &Records(self))?;
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        out.serialize_field("faults", &faults)?;
        out.end()
    }
}

/// The records by module; modules without any are absent.
struct Records<'a>(&'a Log);

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let log = self.0;
        let mut map = serializer.serialize_map(None)?;
        add(&mut map, "POSIX", &log.posix, |record| posix(log, record))?;
        add(&mut map, "STDIO", &log.stdio, |record| stdio(log, record))?;
        add(&mut map, "LUSTRE", &log.lustre, |record| {
            lustre(log, record)
        })?;
        add(&mut map, "HEATMAP", &log.heatmap, |record| {
            heatmap(log, record)
        })?;
        add(&mut map, "DXT_POSIX", &log.dxt_posix, |record| {
            dxt(log, record)
        })?;
        add(&mut map, "DXT_MPIIO", &log.dxt_mpiio, |record| {
            dxt(log, record)
        })?;
        map.end()
    }
}

fn add<'a, M: SerializeMap, T, R: Serialize>(
    map: &mut M,
    module: &str,
    records: &'a [T],
    record: impl Fn(&'a T) -> R,
) -> Result<(), M::Error> {
    if records.is_empty() {
        return Ok(());
    }
    let records: Vec<R> = records.iter().map(record).collect();
    map.serialize_entry(module, &records)
}

/// What every record begins with, and what is its own.
#[derive(Serialize)]
struct Entry<'a, T> {
    id: u64,
    file: Option<&'a str>,
    rank: i64,
    #[serde(flatten)]
    own: T,
}

fn entry<T>(log: &Log, id: u64, rank: i64, own: T) -> Entry<'_, T> {
    let file = log.name(id);
    Entry {
        id,
        file,
        rank,
        own,
    }
}

#[derive(Serialize)]
struct Counted<'a> {
    counters: Named<'a, i64>,
    times: Named<'a, f64>,
}

fn posix<'a>(log: &'a Log, record: &'a PosixRecord) -> Entry<'a, Counted<'a>> {
    let counters = Named(&records::posix::COUNTERS, &record.counters);
    let times = Named(&records::posix::TIMES, &record.times);
    entry(log, record.id, record.rank, Counted { counters, times })
}

fn stdio<'a>(log: &'a Log, record: &'a StdioRecord) -> Entry<'a, Counted<'a>> {
    let counters = Named(&records::stdio::COUNTERS, &record.counters);
    let times = Named(&records::stdio::TIMES, &record.times);
    entry(log, record.id, record.rank, Counted { counters, times })
}

#[derive(Serialize)]
struct Layout<'a> {
    components: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    counters: Named<'a, i64>,
    #[serde(flatten)]
    component: &'a Component,
}

fn lustre<'a>(log: &'a Log, record: &'a LustreRecord) -> Entry<'a, Layout<'a>> {
    let part = |component: &'a Component| Part {
        counters: Named(&records::lustre::COUNTERS, &component.counters),
        component,
    };
    let components = record.components.iter().map(part).collect();
    entry(log, record.id, record.rank, Layout { components })
}

#[derive(Serialize)]
struct Bins<'a> {
    bin_s: f64,
    written: &'a [i64],
    read: &'a [i64],
}

fn heatmap<'a>(log: &'a Log, record: &'a HeatmapRecord) -> Entry<'a, Bins<'a>> {
    let bins = Bins {
        bin_s: record.bin_s,
        written: &record.written,
        read: &record.read,
    };
    entry(log, record.id, record.rank, bins)
}

#[derive(Serialize)]
struct Traced<'a> {
    host: &'a str,
    writes: &'a [records::dxt::Segment],
    reads: &'a [records::dxt::Segment],
}

fn dxt<'a>(log: &'a Log, record: &'a DxtRecord) -> Entry<'a, Traced<'a>> {
    let traced = Traced {
        host: &record.host,
        writes: &record.writes,
        reads: &record.reads,
    };
    entry(log, record.id, record.rank, traced)
}

/// Values under their names.
struct Named<'a, T>(&'a [&'a str], &'a [T]);

impl<T: Serialize> Serialize for Named<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1))
    }
}
