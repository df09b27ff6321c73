//! How long an index takes to open and to ask. Prints; asserts nothing about time.
//!
//! `cargo run --release -p forebay-origin --example index_speed [SAMPLES [PARTS]]`
//!
//! With several parts, each is written by a builder of its own, and they are put together as an
//! index of many files is. Memory is the most that the process ever had.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use forebay_dataset::index::{
    ChunkLayout, ChunksRef, FieldExtent, FieldSpec, Filter, Index, IndexBuilder, LayoutIndex, Part,
    Pick, Picks, Storage, StoredChunk, compose,
};
use forebay_dataset::{BlockSize, Fingerprint, IndexError, SegmentIndex};
use forebay_origin::map_index_file;

type Failure = Box<dyn std::error::Error>;

const LOOK_UPS: u64 = 1_000_000;

fn main() -> Result<(), Failure> {
    let samples = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 5_000_000,
    };
    let parts = match std::env::args().nth(2) {
        Some(count) => count.parse()?,
        None => 1,
    };
    let path = std::env::temp_dir().join(format!("index-speed-{}.fbi", std::process::id()));
    let result = make(samples, parts, &path).and_then(|()| measure(samples, &path));
    result?;
    std::fs::remove_file(&path)?;
    Ok(())
}

fn make(samples: u64, parts: u64, path: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    if parts == 1 {
        let mut file = BufWriter::new(File::create(path)?);
        build(0..samples)?.write(&mut file)?;
        file.into_inner()?.sync_all()?;
    } else {
        in_parts(samples, parts, path)?;
    }
    let bytes = std::fs::metadata(path)?.len();
    let seconds = begun.elapsed().as_secs_f64();
    println!("build and write: {seconds:.1} s, {samples} samples x 2 fields, {bytes} bytes");
    println!("memory: {}", most_memory()?);
    Ok(())
}

fn in_parts(samples: u64, parts: u64, path: &Path) -> Result<(), Failure> {
    let each = samples.div_ceil(parts);
    let mut indexes = Vec::new();
    for part in 0..parts {
        let range = (part * each).min(samples)..((part + 1) * each).min(samples);
        let file = path.with_extension("part");
        let mut out = BufWriter::new(File::create(&file)?);
        build(range)?.write(&mut out)?;
        out.flush()?;
        let map = map_index_file(&file)?;
        // The map keeps it.
        std::fs::remove_file(&file)?;
        indexes.push(Index::parse(map)?);
    }
    let parts: Vec<Part<'_, _>> = indexes
        .iter()
        .map(|index| Part { index, prefix: "" })
        .collect();
    let all = All { each, samples };
    let mut out = BufWriter::new(File::create(path)?);
    compose("/data", indexes[0].fields(), &parts, &all, &mut out)?;
    out.into_inner()?.sync_all()?;
    Ok(())
}

/// The samples of all parts, one after another.
struct All {
    each: u64,
    samples: u64,
}

impl Picks for All {
    fn len(&self) -> u64 {
        self.samples
    }

    fn has_keys(&self) -> bool {
        true
    }

    fn picks(&self, sample: u64, out: &mut Vec<Pick>) {
        out.push(Pick {
            part: (sample / self.each) as u32,
            sample: sample % self.each,
        });
    }

    fn key(&self, sample: u64, out: &mut String) -> Result<(), IndexError> {
        out.push_str(&key(sample));
        Ok(())
    }
}

/// The most memory that the process ever had: all of it, and without mapped files at this moment.
fn most_memory() -> Result<String, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = |name: &str| {
        let found = status.lines().find(|line| line.starts_with(name));
        found.unwrap_or_default().to_owned()
    };
    Ok(format!("{}; {}", line("VmHWM"), line("RssAnon")))
}

fn measure(samples: u64, path: &Path) -> Result<(), Failure> {
    let bytes = std::fs::metadata(path)?.len();
    let begun = Instant::now();
    let read = map_index_file(path)?;
    let opened = Index::parse(&read[..])?.len();
    println!(
        "map and open, first: {:.1} us, {opened} samples",
        begun.elapsed().as_secs_f64() * 1e6
    );
    let begun = Instant::now();
    let index = Index::parse(&read[..])?;
    println!("open: {:.1} us", begun.elapsed().as_secs_f64() * 1e6);
    let begun = Instant::now();
    index.verify()?;
    println!("verify: {:.2} s", begun.elapsed().as_secs_f64());

    let random = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % samples;
    let at = |n: u64| (random(n) * (bytes - 32) / samples) as usize;
    report("baseline: 32 random bytes of the file", |n| {
        Ok(read[at(n)..at(n) + 32]
            .iter()
            .map(|byte| u64::from(*byte))
            .sum())
    })?;
    let keys: Vec<String> = (0..LOOK_UPS).map(|n| key(random(n))).collect();
    report("find, random key", |n| {
        index
            .find(&keys[n as usize])
            .map(|found| found.unwrap_or(0))
    })?;
    report("sample + field 0, random (contiguous)", |n| {
        Ok(index.sample(random(n))?.field(0)?.decoded_len())
    })?;
    report("sample + field 1, random (one chunk)", |n| {
        Ok(index.sample(random(n))?.field(1)?.decoded_len())
    })?;
    report("sample + field 0, in order", |n| {
        Ok(index.sample(n % samples)?.field(0)?.decoded_len())
    })?;
    report("sample + field 0, one and the same", |_| {
        Ok(index.sample(black_box(7))?.field(0)?.decoded_len())
    })
}

fn report(
    what: &str,
    ask: impl Fn(u64) -> Result<u64, forebay_dataset::IndexError>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut sum = 0u64;
    for n in 0..LOOK_UPS {
        sum = sum.wrapping_add(ask(n)?);
    }
    black_box(sum);
    let nanoseconds = begun.elapsed().as_secs_f64() * 1e9 / LOOK_UPS as f64;
    writeln!(io::stdout(), "{what}: {nanoseconds:.0} ns, n {LOOK_UPS}")?;
    Ok(())
}

fn key(sample: u64) -> String {
    format!("complex_{:07}/pose_{}", sample / 10, sample % 10)
}

const FILES: u32 = 1000;

fn build(samples: std::ops::Range<u64>) -> Result<IndexBuilder, Failure> {
    let field = |name: &str, dtype: &str| -> Result<FieldSpec, Failure> {
        Ok(FieldSpec {
            name: name.to_owned(),
            dtype: dtype.parse()?,
        })
    };
    let fields = vec![field("coord", "<f4")?, field("edges", "<i8")?];
    let mut builder = IndexBuilder::new("/data", fields, BlockSize::DEFAULT)?;
    let fingerprint = Fingerprint {
        size: 1 << 40,
        mtime_ns: 1,
        inode: 1,
    };
    for n in 0..FILES {
        builder.add_segment(&format!("{n}.h5"), fingerprint)?;
    }
    let layouts = (0..100)
        .map(|n| builder.intern_layout(layout(n)))
        .collect::<Result<Vec<_>, _>>()?;
    for n in samples {
        add(&mut builder, n, &layouts)?;
    }
    Ok(builder)
}

fn layout(atoms: u64) -> ChunkLayout {
    ChunkLayout {
        array_shape: vec![atoms + 20, 2],
        chunk_shape: vec![atoms + 20, 2],
        filters: vec![Filter::Shuffle { element_size: 8 }, Filter::Lzf],
        fill_value: Vec::new(),
    }
}

fn add(builder: &mut IndexBuilder, n: u64, layouts: &[LayoutIndex]) -> Result<(), Failure> {
    let segment = SegmentIndex((n % u64::from(FILES)) as u32);
    let rows = n % layouts.len() as u64 + 20;
    let chunks: ChunksRef = builder.add_chunks(
        segment,
        &[StoredChunk {
            grid_index: 0,
            offset: n * 1000,
            stored_len: 700,
            filter_mask: 0,
        }],
    )?;
    let coord = FieldExtent {
        segment,
        shape: vec![rows, 3],
        storage: Storage::Contiguous { offset: n * 1000 },
    };
    let edges = FieldExtent {
        segment,
        shape: vec![rows, 2],
        storage: Storage::Chunked {
            layout: layouts[(n % layouts.len() as u64) as usize],
            first_row: 0,
            rows,
            chunks,
        },
    };
    builder.add_sample(Some(&key(n)), &[coord, edges], None)?;
    Ok(())
}
