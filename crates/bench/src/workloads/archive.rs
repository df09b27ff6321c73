//! Archives: compressed streams, what goes in, what must come out.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};

use crate::workload::Stage;
use crate::{BenchError, Kind, Param, Params, Result};

/// Bytes between the file and the compressor.
pub(super) const BUFFER: usize = 1 << 20;

/// What an xz stream may ask for: its dictionary is named by the file.
const XZ_KIB: u32 = 256 << 10;

/// The most members of an archive.
pub(super) const MOST: u64 = 10_000_000;

pub(super) const COMPRESSIONS: &[&str] = &["none", "gz", "bz2", "xz", "zst"];
pub(super) const NUM_FILES: Param = Param::new(
    "num_files",
    Kind::Count,
    "500",
    "files of the folder that is made",
);
pub(super) const FILES_OF: Param = Param::new(
    "file_size",
    Kind::Size,
    "32KiB",
    "bytes of each file that is made",
);
pub(super) const LEVEL: Param = Param::new(
    "level",
    Kind::Count,
    "0",
    "level of the compression; 0: its default",
);

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gz,
    Bz2,
    Xz,
    Zst,
}

impl Compression {
    /// By its word; `None` for any other.
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "gz" => Some(Self::Gz),
            "bz2" => Some(Self::Bz2),
            "xz" => Some(Self::Xz),
            "zst" => Some(Self::Zst),
            _ => None,
        }
    }

    /// By the first bytes of the file.
    pub(super) fn detect(file: &mut File) -> io::Result<Self> {
        let mut head = [0; 6];
        let mut read = 0;
        while read < head.len() {
            match file.read(&mut head[read..])? {
                0 => break,
                count => read += count,
            }
        }
        file.rewind()?;
        Ok(match &head {
            [0x1f, 0x8b, ..] => Self::Gz,
            [b'B', b'Z', b'h', ..] => Self::Bz2,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zst,
            _ => Self::None,
        })
    }

    fn highest(self) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Gz | Self::Bz2 | Self::Xz => 9,
            Self::Zst => 22,
        }
    }

    /// The ending of a file's name.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::None => "tar",
            Self::Gz => "tar.gz",
            Self::Bz2 => "tar.bz2",
            Self::Xz => "tar.xz",
            Self::Zst => "tar.zst",
        }
    }
}

/// A compression with its level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    pub(super) compression: Compression,
    level: u32,
}

impl Packing {
    /// By `level`, and the compression of this name.
    pub(super) fn new(compression: &str, params: &Params) -> Result<Self> {
        let compression = Compression::parse(compression).unwrap_or(Compression::None);
        let level = params.count("level")?;
        if level > compression.highest() {
            return Err(BenchError::Usage(format!(
                "`level` must be at most {}: {level}",
                compression.highest()
            )));
        }
        Ok(Self {
            compression,
            level: u32::try_from(level).unwrap_or(0),
        })
    }

    pub(super) fn encoder(self, file: File) -> io::Result<Encoder> {
        let file = BufWriter::with_capacity(BUFFER, file);
        let level = |default: u32| if self.level == 0 { default } else { self.level };
        Ok(match self.compression {
            Compression::None => Encoder::None(file),
            Compression::Gz => {
                let level = flate2::Compression::new(level(6));
                Encoder::Gz(flate2::write::GzEncoder::new(file, level))
            }
            Compression::Bz2 => {
                let level = bzip2::Compression::new(level(9));
                Encoder::Bz2(bzip2::write::BzEncoder::new(file, level))
            }
            Compression::Xz => {
                let options = lzma_rust2::XzOptions::with_preset(level(6));
                Encoder::Xz(Box::new(lzma_rust2::XzWriter::new(file, options)?))
            }
            Compression::Zst => Encoder::Zst(zstd::Encoder::new(file, level(3) as i32)?),
        })
    }
}

type Out = BufWriter<File>;

pub(super) enum Encoder {
    None(Out),
    Gz(flate2::write::GzEncoder<Out>),
    Bz2(bzip2::write::BzEncoder<Out>),
    Xz(Box<lzma_rust2::XzWriter<Out>>),
    Zst(zstd::Encoder<'static, Out>),
}

impl Encoder {
    /// Ends the stream; the file, with all of it written.
    pub(super) fn finish(self) -> io::Result<File> {
        let out = match self {
            Self::None(out) => out,
            Self::Gz(encoder) => encoder.finish()?,
            Self::Bz2(encoder) => encoder.finish()?,
            Self::Xz(encoder) => encoder.finish()?,
            Self::Zst(encoder) => encoder.finish()?,
        };
        out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Write for Encoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(out) => out.write(bytes),
            Self::Gz(encoder) => encoder.write(bytes),
            Self::Bz2(encoder) => encoder.write(bytes),
            Self::Xz(encoder) => encoder.write(bytes),
            Self::Zst(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::None(out) => out.flush(),
            Self::Gz(encoder) => encoder.flush(),
            Self::Bz2(encoder) => encoder.flush(),
            Self::Xz(encoder) => encoder.flush(),
            Self::Zst(encoder) => encoder.flush(),
        }
    }
}

/// Opens an archive to read; of `None`, its compression is found out.
pub(super) fn open(path: &Path, compression: Option<Compression>) -> Result<Box<dyn Read>> {
    let decoder = || -> io::Result<Box<dyn Read>> {
        let mut file = File::open(path)?;
        let compression = match compression {
            Some(compression) => compression,
            None => Compression::detect(&mut file)?,
        };
        let file = BufReader::with_capacity(BUFFER, file);
        Ok(match compression {
            Compression::None => Box::new(file),
            Compression::Gz => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Compression::Bz2 => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
            Compression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, XZ_KIB)),
            Compression::Zst => Box::new(zstd::Decoder::with_buffer(file)?),
        })
    };
    decoder().map_err(BenchError::io("open archive", path))
}

/// What lies below a folder: its folders, files and links, each after the folder it is in.
pub(super) fn members(root: &Path, at: &Stage<'_>) -> Result<Vec<PathBuf>> {
    let mut members = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let shown = super::dataset::below(root, &folder);
        let fault = |error| BenchError::io("list", &shown)(error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&shown).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            names.push((entry.file_name(), entry.file_type().map_err(fault)?));
        }
        names.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, kind) in names {
            at.go_on()?;
            let path = folder.join(name);
            if root.join(&path) == at.spec.work_dir {
                // A folder that is packed may hold that of the run, which grows meanwhile.
                continue;
            }
            if kind.is_dir() {
                folders.push(path.clone());
            }
            if kind.is_dir() || kind.is_file() || kind.is_symlink() {
                members.push(path);
            }
            if members.len() as u64 > MOST {
                return Err(BenchError::Usage(format!(
                    "`{}` has more than {MOST} files and folders",
                    root.display()
                )));
            }
        }
    }
    Ok(members)
}

/// A path of an archive that stays below where it is extracted.
pub(super) fn is_plain(path: &Path) -> bool {
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    path.components().all(plain)
}

/// Whether a member has exactly the bytes of a file.
pub(super) fn is_same(member: &mut impl Read, file: &Path) -> Result<bool> {
    let other = match File::open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(BenchError::io("open", file)(error)),
    };
    let (mut one, mut two) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = member
            .read(&mut one)
            .map_err(BenchError::io("read a member like", file))?;
        let two = &mut two[..count.max(1)];
        let found = crate::files::read_full(&other, two).map_err(BenchError::os("read", file))?;
        if count == 0 || found != count || one[..count] != two[..found] {
            // Both ended, or they differ.
            return Ok(count == 0 && found == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compression_gives_back_what_it_was_given_and_is_detected() {
        let temp = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_000u32)
            .flat_map(|n| (n % 500).to_le_bytes())
            .collect();
        for word in COMPRESSIONS {
            let compression = Compression::parse(word).unwrap();
            let path = temp.path().join(compression.ending());
            let packing = Packing {
                compression,
                level: 1,
            };
            let mut encoder = packing.encoder(File::create(&path).unwrap()).unwrap();
            encoder.write_all(&bytes).unwrap();
            encoder.finish().unwrap();
            let packed = path.metadata().unwrap().len();
            assert!(
                *word == "none" || packed < bytes.len() as u64 / 2,
                "{word}: {packed}"
            );
            let mut file = File::open(&path).unwrap();
            assert_eq!(Compression::detect(&mut file).unwrap(), compression);
            let mut found = Vec::new();
            open(&path, None).unwrap().read_to_end(&mut found).unwrap();
            assert_eq!(found, bytes, "{word}");
        }
    }

    #[test]
    fn a_difference_of_one_byte_or_of_length_is_seen() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("x");
        let bytes = vec![9u8; 150_000];
        std::fs::write(&file, &bytes).unwrap();
        assert!(is_same(&mut bytes.as_slice(), &file).unwrap());
        assert!(!is_same(&mut &bytes[1..], &file).unwrap());
        assert!(!is_same(&mut [bytes.as_slice(), &[9]].concat().as_slice(), &file).unwrap());
        let mut other = bytes.clone();
        other[149_999] = 8;
        assert!(!is_same(&mut other.as_slice(), &file).unwrap());
        assert!(!is_same(&mut bytes.as_slice(), &temp.path().join("none")).unwrap());
    }
}
