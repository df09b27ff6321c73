//! `forebay index`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use forebay_dataset::BlockSize;
use forebay_indexer::{
    Format, IndexRequest, IndexSummary, Labels, MergeRequest, SampleRule, index, merge,
};
use serde_json::json;

use crate::Failure;
use crate::output::{count, may_hold_index};
use crate::progress::Bar;
use crate::stores::stores;

/// Find the samples in files where they lie, and write an index of them. Nothing is rewritten.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Sample patterns:\n  \
    */*                    every group two levels down is a sample, its data sets are the fields\n  \
    */dcomplex/*           the same, where the middle level has this name; the key is what the * match\n  \
    rows                   every row along axis 0 of the data sets at the root\n  \
    rows:/x,/y             the same, of these data sets\n  \
    /                      each file is a sample\n  \
    'GLOB=PATTERN'         the pattern for the files whose names match; samples of one key are joined\n  \
    '{file}.h5={id}/{n}'   with --manifest: columns of the table in braces; a sample for each row")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<IndexCommand>,
    /// Files and folders, or URLs of objects and prefixes: s3://, gs://, az://, http://, https://
    #[arg(required_unless_present = "list")]
    inputs: Vec<PathBuf>,
    /// A file with further inputs, one a line
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// The index file to write [default with --append: the same]
    #[arg(short, long, required_unless_present = "append")]
    output: Option<PathBuf>,
    /// Keep the samples of this index, and add those of files that it does not name yet
    #[arg(long, value_name = "INDEX")]
    append: Option<PathBuf>,
    #[command(flatten)]
    samples: SampleArguments,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum IndexCommand {
    Merge(MergeArguments),
}

/// Put the samples of several indexes into one, in the order given: parts made on many nodes.
#[derive(Args)]
struct MergeArguments {
    /// Indexes with the same fields
    #[arg(required = true)]
    indexes: Vec<PathBuf>,
    /// The index file to write
    #[arg(short, long)]
    output: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What a sample is.
#[derive(Args)]
pub(crate) struct SampleArguments {
    /// What a sample is: `PATTERN` or `GLOB=PATTERN`, may be given more than once [default: found out]
    #[arg(long = "sample", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// What the files are: `hdf5`, `tar`, `npy`, `npz`, `safetensors`, `tfrecord`, `mds`, `arrow`, `parquet` or `files` [default: found out]
    #[arg(long)]
    format: Option<String>,
    /// A table (CSV, TSV or Parquet) with a row for each sample: columns in braces in the sample
    /// patterns say where it lies, all other columns become fields
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Every file is one sample, HDF5 files too: short for `--format files`
    #[arg(long)]
    files: bool,
    /// Index hidden files too
    #[arg(long)]
    hidden: bool,
    /// Give each file a field `label`: with `folders`, the number of the class folder it lies in
    #[arg(long, value_name = "SOURCE")]
    labels: Option<String>,
    /// Read all data and compare it with the checksums that TFRecord and npz files have
    #[arg(long)]
    verify_data: bool,
    /// Index an HDF5 file that is open for writing with readers allowed (SWMR) as it stands
    #[arg(long)]
    swmr: bool,
    /// Fields to keep, with * and ? as wildcards [default: all]
    #[arg(long, value_delimiter = ',')]
    fields: Vec<String>,
    /// Leave out and count samples that lack a field, instead of failing
    #[arg(long)]
    skip_incomplete: bool,
    /// Folder that paths in the index are relative to [default: the one that holds all inputs]
    #[arg(long)]
    root: Option<PathBuf>,
    /// Unit of caching in bytes, a power of two from 4096 to 16777216
    #[arg(long, default_value_t = BlockSize::DEFAULT.bytes())]
    block_size: u32,
}

impl SampleArguments {
    /// The options given that say how files are read, and so do not go with an index.
    pub(crate) fn of_files(&self) -> Vec<&'static str> {
        let given = [
            ("--sample", !self.patterns.is_empty()),
            ("--format", self.format.is_some()),
            ("--manifest", self.manifest.is_some()),
            ("--files", self.files),
            ("--hidden", self.hidden),
            ("--labels", self.labels.is_some()),
            ("--verify-data", self.verify_data),
            ("--swmr", self.swmr),
            ("--fields", !self.fields.is_empty()),
            ("--skip-incomplete", self.skip_incomplete),
            (
                "--block-size",
                self.block_size != BlockSize::DEFAULT.bytes(),
            ),
        ];
        given
            .into_iter()
            .filter_map(|(name, given)| given.then_some(name))
            .collect()
    }

    /// Folder of the origin's files, where one is named.
    pub(crate) fn root(&self) -> Option<PathBuf> {
        self.root.clone()
    }

    pub(crate) fn request(
        &self,
        inputs: Vec<PathBuf>,
        output: PathBuf,
    ) -> Result<IndexRequest, Failure> {
        let samples = self.patterns.iter().map(|text| text.parse::<SampleRule>());
        let usage = |error: &dyn std::error::Error| Failure::usage(error.to_string());
        let format = self.format.as_deref().map(str::parse::<Format>);
        let labels = self.labels.as_deref().map(str::parse::<Labels>);
        Ok(IndexRequest {
            samples: samples
                .collect::<Result<_, _>>()
                .map_err(|error| usage(&error))?,
            format: format.transpose().map_err(|error| usage(&error))?,
            manifest: self.manifest.clone(),
            files_as_samples: self.files,
            labels: labels.transpose().map_err(|error| usage(&error))?,
            swmr: self.swmr,
            hidden: self.hidden,
            verify_data: self.verify_data,
            fields: self.fields.clone(),
            skip_incomplete: self.skip_incomplete,
            root: self.root.clone(),
            block_size: BlockSize::new(self.block_size).map_err(|error| usage(&error))?,
            stores: Some(stores()?),
            ..IndexRequest::new(inputs, output)
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(IndexCommand::Merge(arguments)) = &arguments.command {
        return run_merge(arguments);
    }
    let output = arguments.output.as_ref().or(arguments.append.as_ref());
    let output = output.ok_or_else(|| Failure::usage("name the index to write with --output"))?;
    may_hold_index(output)?;
    let mut inputs = arguments.inputs.clone();
    if let Some(list) = &arguments.list {
        inputs.extend(listed(list)?);
    }
    refuse_flattened(&inputs)?;
    let request = IndexRequest {
        append_to: arguments.append.clone(),
        ..arguments.samples.request(inputs, output.clone())?
    };
    let summary = index(&request, &Bar::default())?;
    show(&summary, output, arguments.json);
    Ok(())
}

fn run_merge(arguments: &MergeArguments) -> Result<(), Failure> {
    may_hold_index(&arguments.output)?;
    let request = MergeRequest {
        indexes: arguments.indexes.clone(),
        output: arguments.output.clone(),
    };
    let summary = merge(&request, &Bar::default())?;
    show(&summary, &arguments.output, arguments.json);
    Ok(())
}

fn show(summary: &IndexSummary, output: &Path, as_json: bool) {
    if as_json {
        println!("{}", json(summary, output));
    } else {
        eprintln!("{}", words(summary, output));
    }
}

/// The inputs in a file, one a line; empty lines are none.
fn listed(list: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = std::fs::read_to_string(list)
        .map_err(|error| Failure::new(format!("cannot read `{}`: {error}", list.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(PathBuf::from).collect())
}

/// A folder that `forebay flatten` wrote has an index. Found out, its files would be the samples.
pub(crate) fn refuse_flattened(inputs: &[PathBuf]) -> Result<(), Failure> {
    match inputs.iter().find_map(|input| flattened(input)) {
        None => Ok(()),
        Some(index) => Err(Failure::usage(format!(
            "there is an index of these samples already: `{}`",
            index.display()
        ))
        .hint("use that index as it is, or index the files that were flattened")),
    }
}

/// The index in a folder that `forebay flatten` wrote.
pub(crate) fn flattened(folder: &Path) -> Option<PathBuf> {
    let index = folder.join("index.forebay");
    (folder.join("flatten.json").is_file() && index.is_file()).then_some(index)
}

fn json(summary: &IndexSummary, output: &Path) -> serde_json::Value {
    let fields = summary
        .fields
        .iter()
        .map(|field| json!({"name": field.name, "dtype": field.dtype.to_string()}));
    json!({
        "index": output,
        "samples": summary.samples,
        "skipped": summary.skipped,
        "fields": fields.collect::<Vec<_>>(),
        "classes": summary.classes,
        "segments": summary.segments,
        "shards": summary.shards,
        "origin_bytes": summary.origin_bytes,
        "index_bytes": summary.index_bytes,
        "generation": format!("{:032x}", summary.generation),
        "seconds": summary.seconds,
    })
}

fn words(summary: &IndexSummary, output: &Path) -> String {
    let fields = summary
        .fields
        .iter()
        .map(|field| format!("{} {}", field.name, field.dtype));
    let mut text = format!(
        "indexed {} in {} ({}) in {:.2} s\nfields: {}\nwrote `{}` ({})",
        count(summary.samples, "sample"),
        count(summary.segments, "file"),
        bytes(summary.origin_bytes),
        summary.seconds,
        fields.collect::<Vec<_>>().join(", "),
        output.display(),
        bytes(summary.index_bytes),
    );
    if !summary.classes.is_empty() {
        text.push_str(&format!("\n{} classes, from 0: ", summary.classes.len()));
        text.push_str(&summary.classes.join(", "));
    }
    if summary.skipped > 0 {
        text.push_str(&format!(
            "\nleft out {}",
            count(summary.skipped, "incomplete sample")
        ));
    }
    text
}

/// A size as people read it.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}
