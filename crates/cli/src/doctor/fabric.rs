//! What libfabric finds, and why a provider was refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use forebay_client::status;
use forebay_libfabric::{
    FAST, Libfabric, LoadError, Offer, Provider, QueryError, Want, device_of, traffic_classes,
};
use forebay_residency::NodePaths;
use serde_json::{Value, json};

use crate::doctor::item::Item;
use crate::doctor::{variable, within};
use crate::index::bytes;

/// How long a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How long drivers may take.
const LIMIT: Duration = Duration::from_secs(30);
/// A file in place of the library that the loader finds.
const FILE: &str = Libfabric::FILE;

/// `folder` is the cache folder, whose daemon is asked what went over which path.
pub(super) fn items(folder: Option<&Path>) -> Vec<Item> {
    let mut items = vec![links(folder)];
    items.extend(within(LIMIT, survey).unwrap_or_else(|| {
        vec![
            Item::refused("library", "a provider does not answer")
                .way_out("name those that should be tried in FI_PROVIDER, such as FI_PROVIDER=tcp"),
        ]
    }));
    items
}

/// What a daemon would use, and what one that runs has moved.
fn links(folder: Option<&Path>) -> Item {
    let named = folder.map(Path::to_owned);
    let folder = named.or_else(|| NodePaths::default_folder(|name| std::env::var_os(name)));
    let status = folder.and_then(|folder| status(&folder, ANSWER).ok());
    let status: Option<Value> = status.and_then(|text| serde_json::from_str(&text).ok());
    let members = status
        .as_ref()
        .and_then(|status| status["members"].as_array());
    let Some((status, members)) = status.as_ref().zip(members) else {
        let set = variable("FOREBAY_TRANSPORT");
        let words = match set {
            Some(transport) => format!("by FOREBAY_TRANSPORT `{transport}`"),
            None => "TCP, unless `--transport` says otherwise".to_owned(),
        };
        return Item::ok("links", words);
    };
    let sum = |of: &dyn Fn(&Value) -> Option<u64>| members.iter().filter_map(of).sum::<u64>();
    let all = sum(&|member| member["received_bytes"].as_u64());
    let over_fabric = sum(&|member| member["fabric"]["received_bytes"].as_u64());
    let transport = status["plan"]["transport"].as_str().unwrap_or("tcp");
    let words = format!(
        "`{transport}` in the daemon that runs; {} received over TCP, {} over libfabric",
        bytes(all.saturating_sub(over_fabric)),
        bytes(over_fabric),
    );
    match status["fabric"]["reason"].as_str() {
        Some(reason) => Item::ok("links", format!("{words}; {reason}")),
        None => Item::ok("links", words),
    }
}

fn survey() -> Vec<Item> {
    let library = match Libfabric::installed() {
        Ok(library) => library,
        Err(error @ LoadError::NotFound { .. }) => {
            let way =
                format!("install libfabric (Debian: `libfabric1`), or name its file in {FILE}");
            return vec![Item::missing("library", error.to_string()).way_out(way)];
        }
        Err(error) => {
            let way = format!("mend it, or name another file in {FILE}");
            return vec![Item::refused("library", error.to_string()).way_out(way)];
        }
    };
    let words = format!("`{}`, version {}", library.name(), library.version());
    let mut items = vec![Item::ok("library", words)];
    match library.providers() {
        Err(error) => items.push(Item::refused("providers", error.to_string())),
        Ok(providers) => {
            let cores = providers.iter().filter(|provider| !provider.is_layer());
            items.extend(cores.map(|core| provider(&library, core)));
            let has = |name: &str| providers.iter().any(|provider| provider.name == name);
            let absent = FAST.iter().filter(|name| !has(name));
            items.extend(absent.map(|name| not_built(name)));
        }
    }
    items
}

fn provider(library: &Libfabric, provider: &Provider) -> Item {
    let name = provider.name.as_str();
    let all = match library.offers(name, Want::Anything) {
        Ok(all) => all,
        Err(error) => return refused(name, &error),
    };
    let reads = library.offers(name, Want::RemoteReads);
    let words = words(&all);
    let item = match &reads {
        Ok(reads) => {
            let way = reads.first().map_or("", |offer| offer.provider.as_str());
            Item::ok(name, format!("{words}; remote reads by `{way}`"))
        }
        Err(error) if error.is_nothing_there() => Item::refused(
            name,
            format!("{words}; no reliable datagrams with remote reads"),
        ),
        Err(error) => Item::refused(name, format!("{words}; remote reads: {error}")),
    };
    item.details(json!({
        "version": provider.version,
        "traffic_classes": traffic_classes(name),
        "offers": all,
        "remote_reads": reads.unwrap_or_default(),
    }))
}

fn words(all: &[Offer]) -> String {
    let set = |of: &dyn Fn(&Offer) -> String| {
        let set: BTreeSet<String> = all.iter().map(of).collect();
        set.into_iter().collect::<Vec<_>>().join(", ")
    };
    let name = all.first().map_or("", Offer::core);
    let mut can: Vec<&str> = Vec::new();
    let names: BTreeSet<String> = all
        .iter()
        .flat_map(|offer| offer.capabilities.names())
        .collect();
    for kind in ["MSG", "RMA", "TAGGED", "ATOMIC"] {
        if names.contains(kind) {
            can.push(kind);
        }
    }
    format!(
        "{} on {}; {}; traffic class {}",
        set(&|offer| offer.endpoint.to_string()),
        set(&|offer| offer.domain.clone()),
        can.join(", "),
        traffic_classes(name),
    )
}

fn refused(name: &str, error: &QueryError) -> Item {
    let device = device_of(name).filter(|device| !Path::new(device).exists());
    match device {
        Some(device) => Item::refused(name, format!("{error}; there is no device: no `{device}`")),
        None => Item::refused(name, error.to_string())
            .way_out("FI_LOG_LEVEL=info shows what the provider says"),
    }
}

fn not_built(name: &str) -> Item {
    let why = "this build of libfabric has no such provider";
    match device_of(name).filter(|device| Path::new(device).exists()) {
        Some(device) => Item::missing(name, format!("{why}, and `{device}` has devices"))
            .way_out(format!("name the site's own libfabric in {FILE}")),
        None => Item::missing(name, format!("{why}, and there is no device")),
    }
}
