//! Credentials of object stores: which variables are set, and never what they hold.

use forebay_objects::{StoreSettings, credentials, way_out};
use forebay_origin::Scheme;

use crate::doctor::item::Item;

pub(super) fn items() -> Vec<Item> {
    // A variable that is no text is no setting of a store either.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let settings = match StoreSettings::from_variables(std::env::vars_os().filter_map(text)) {
        Ok(settings) => settings,
        Err(error) => {
            let why = crate::Failure::from(error).message().to_owned();
            return vec![Item::refused("settings", why).way_out("mend or unset the variable")];
        }
    };
    let item = |(name, scheme): (&str, Scheme)| match &credentials(scheme, &settings)[..] {
        [] => Item::missing(name, "no credentials in the environment").way_out(way_out(scheme)),
        set => Item::ok(name, format!("by {}", set.join(", "))),
    };
    let stores = [
        ("S3", Scheme::S3),
        ("Google Cloud Storage", Scheme::Gcs),
        ("Azure Blob Storage", Scheme::Azure),
    ];
    stores.into_iter().map(item).collect()
}
