//! The header says what the library has, and programs in C and C++ that use it build and run.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_dataset::ErrorKind;
use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Storage};
use forebay_dataset::{BlockSize, Fingerprint};
use forebay_service::{Outside, ServePlan, ServeSettings, Source, serve};

/// Set to the cache folder in the process that serves.
const CACHE: &str = "FOREBAY_TEST_CACHE";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn header() -> String {
    std::fs::read_to_string(root().join("include/forebay.h")).unwrap()
}

/// Single spaces, none around brackets, commas and stars.
fn normal(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = words
        .replace("* ", "*")
        .replace(" *", "*")
        .replace("( ", "(");
    for (from, to) in [(" (", "("), (" )", ")"), (" ,", ","), (", ", ",")] {
        out = out.replace(from, to);
    }
    out
}

/// Each function that the header declares, with its type, by name.
fn declared() -> BTreeMap<String, String> {
    let text = header();
    let mut text = text.as_str();
    let mut bare = String::new();
    while let Some((before, rest)) = text.split_once("/*") {
        bare.push_str(before);
        text = rest.split_once("*/").unwrap().1;
    }
    bare.push_str(text);
    let lines = bare.lines().filter(|line| !line.starts_with('#'));
    let bare = lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace("extern \"C\" {", "");
    let functions = bare
        .split(';')
        .filter(|part| part.contains("forebay_") && part.contains('('));
    functions
        .map(|function| {
            let function = normal(function);
            let name = function.split('(').next().unwrap();
            let at = name.rfind("forebay_").unwrap();
            (name[at..].to_owned(), function.clone())
        })
        .collect()
}

fn c_type(rust: &str) -> String {
    let known = match rust {
        "*const c_char" => "const char *",
        "c_int" => "int",
        "c_double" => "double",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "*mut u8" => "void *",
        "*mut u64" => "uint64_t *",
        "*mut usize" => "size_t *",
        "*mut c_int" => "int *",
        "*const u64" => "const uint64_t *",
        "*mut forebay_place" => "struct forebay_place *",
        "*mut forebay_stat" => "struct forebay_stat *",
        "*mut *mut forebay_dataset" => "forebay_dataset **",
        "*mut *mut forebay_file" => "forebay_file **",
        "*const forebay_dataset" => "const forebay_dataset *",
        "*mut forebay_dataset" => "forebay_dataset *",
        "*const forebay_file" => "const forebay_file *",
        "*mut forebay_file" => "forebay_file *",
        other => panic!("no type of C is known for `{other}`"),
    };
    known.to_owned()
}

/// Each function of the library as C would declare it, by name.
fn defined() -> BTreeMap<String, String> {
    let files = ["ffi.rs", "ffi/dataset.rs", "ffi/published.rs"];
    let read = |file| std::fs::read_to_string(root().join("crates/capi/src").join(file)).unwrap();
    let source: String = files.into_iter().map(read).collect();
    let functions = source.split("#[unsafe(no_mangle)]").skip(1);
    functions
        .map(|function| {
            let function = function.split_once("extern \"C\" fn ").unwrap().1;
            let (signature, _) = function.split_once(" {\n").unwrap();
            let (name, rest) = signature.split_once('(').unwrap();
            let (arguments, result) = rest.rsplit_once(')').unwrap();
            let result = result
                .trim()
                .strip_prefix("-> ")
                .map_or("void".to_owned(), c_type);
            if name == "forebay_on_signal" {
                // The one with a function in it.
                assert_eq!(arguments, "interrupted: Option<extern \"C\" fn() -> c_int>");
                let c = "void forebay_on_signal(int(*interrupted)(void))";
                return (name.to_owned(), normal(c));
            }
            let arguments = arguments
                .split(',')
                .map(str::trim)
                .filter(|each| !each.is_empty());
            let arguments = arguments.map(|argument| {
                let (name, kind) = argument.split_once(": ").unwrap();
                format!("{} {name}", c_type(kind))
            });
            let arguments: Vec<String> = arguments.collect();
            let arguments = if arguments.is_empty() {
                "void".to_owned()
            } else {
                arguments.join(", ")
            };
            let c = format!("{result} {name}({arguments})");
            (name.to_owned(), normal(&c))
        })
        .collect()
}

#[test]
fn the_header_declares_what_the_library_has() {
    assert_eq!(declared(), defined());
    assert!(declared().len() > 15, "{:?}", declared().keys());
    for (number, kind) in (1..).zip(ErrorKind::ALL) {
        let name = kind.code().replace('-', "_").to_uppercase();
        assert!(
            header().contains(&format!("FOREBAY_{name} = {number}")),
            "{name}"
        );
    }
}

/// The library as C programs link with it, beside this test.
fn library() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    let beside = folder.join("libforebay.so");
    if beside.exists() {
        return beside;
    }
    folder.parent().unwrap().join("libforebay.so")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{words}");
    output
}

/// Builds an example; warnings are errors.
fn build(compiler: &str, standard: &str, source: &str, into: &Path) -> PathBuf {
    let program = into.join("program");
    let library = library();
    let folder = library.parent().unwrap();
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"])
        .arg(&program)
        .arg(root().join("crates/capi/examples").join(source))
        .arg("-I")
        .arg(root().join("include"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", folder.display())));
    program
}

/// Not a test of its own: the body of the process that serves.
#[test]
fn helper_that_serves() {
    let Some(cache) = std::env::var_os(CACHE) else {
        return;
    };
    let settings = ServeSettings {
        cache: Some(cache.into()),
        free_floor: Some("0".into()),
        ..ServeSettings::default()
    };
    let plan = ServePlan::resolve(&[(Source::CommandLine, settings)], None, |_| 1 << 30).unwrap();
    serve(plan, Outside::default(), false, || {}).unwrap();
    std::process::exit(0);
}

/// A daemon; killed when dropped.
struct Daemon(std::process::Child);

impl Daemon {
    fn start(cache: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_that_serves", "--test-threads=1"])
            .env(CACHE, cache)
            .stdout(std::process::Stdio::null())
            .spawn();
        let daemon = Self(child.unwrap());
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !cache.join("daemon.sock").exists() {
            assert!(std::time::Instant::now() < end, "the daemon does not come");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_in_c_publishes_and_consumes() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let _daemon = Daemon::start(&cache);
    let file = folder.path().join("a");
    std::fs::write(&file, "what C wrote").unwrap();
    let program = build("cc", "-std=c99", "exchange.c", folder.path());
    let output = run(Command::new(&program).arg(&cache).arg(&file));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "example: 12 bytes: what C wrote\n"
    );
    // What goes wrong has a status and words.
    let output = Command::new(program)
        .arg(&cache)
        .arg("/none")
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words.starts_with("cannot publish (not-found): cannot publish `/none`"),
        "{words}"
    );
}

#[test]
fn a_program_in_cpp_reads_samples() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let _daemon = Daemon::start(&cache);
    let data = folder.path().join("data");
    std::fs::write(&data, (1..=24u8).collect::<Vec<_>>()).unwrap();
    let fingerprint = forebay_fingerprint(&data);
    let field = |name: &str, dtype: &str| FieldSpec {
        name: name.to_owned(),
        dtype: dtype.parse().unwrap(),
    };
    let fields = vec![field("a", "|u1"), field("b", "<u2")];
    let root = folder.path().to_str().unwrap();
    let mut builder = IndexBuilder::new(root, fields, BlockSize::new(4096).unwrap()).unwrap();
    let segment = builder.add_segment("data", fingerprint).unwrap();
    for sample in 0..2 {
        let extent = |offset: u64, shape: Vec<u64>| FieldExtent {
            segment,
            shape,
            storage: Storage::Contiguous {
                offset: 12 * sample + offset,
            },
        };
        let extents = [extent(0, vec![4]), extent(4, vec![2, 2])];
        builder.add_sample(None, &extents, None).unwrap();
    }
    let index = folder.path().join("index");
    builder
        .write(&mut std::fs::File::create(&index).unwrap())
        .unwrap();
    let program = build("c++", "-std=c++17", "samples.cpp", folder.path());
    let output = run(Command::new(program).arg(&index).arg(&cache));
    let words = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        words,
        "0 a |u1 [4] 10\n0 b <u2 [2,2] 68\n1 a |u1 [4] 58\n1 b <u2 [2,2] 164\n"
    );
    assert!(output.stderr.is_empty(), "it had a daemon");
}

fn forebay_fingerprint(path: &Path) -> Fingerprint {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).unwrap();
    Fingerprint {
        size: meta.len(),
        mtime_ns: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
        inode: meta.ino(),
    }
}
