//! What libfabric finds, and why a provider was refused.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use forebay_libfabric::{
    Libfabric, LoadError, Offer, Provider, QueryError, Want, device_of, traffic_classes,
};
use serde_json::json;

use crate::doctor::item::Item;
use crate::doctor::within;

/// How long drivers may take.
const LIMIT: Duration = Duration::from_secs(30);
/// A file in place of the library that the loader finds.
const FILE: &str = "FOREBAY_LIBFABRIC";
/// Providers of fast networks, of which it is told too that a build has them not.
const FAST: &[&str] = &["cxi", "efa", "verbs"];

pub(super) fn items() -> Vec<Item> {
    let transport = Item::ok(
        "links",
        "TCP; what follows is not used by links between nodes yet",
    );
    let mut items = vec![transport];
    items.extend(within(LIMIT, survey).unwrap_or_else(|| {
        vec![
            Item::refused("library", "a provider does not answer")
                .way_out("name those that should be tried in FI_PROVIDER, such as FI_PROVIDER=tcp"),
        ]
    }));
    items
}

fn survey() -> Vec<Item> {
    let named = std::env::var_os(FILE).filter(|named| !named.is_empty());
    let file = named.unwrap_or_else(|| OsString::from(Libfabric::NAME));
    let library = match Libfabric::load(&file) {
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
