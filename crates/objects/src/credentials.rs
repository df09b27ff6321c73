//! The variables that credentials of each kind of store may lie in.

use forebay_origin::Scheme;

use crate::StoreSettings;

pub(crate) const S3: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
];
pub(crate) const GCS: &[&str] = &[
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_BEARER_TOKEN",
];
pub(crate) const AZURE: &[&str] = &[
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_USE_AZURE_CLI",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURE_MSI_ENDPOINT",
    "AZURE_IDENTITY_ENDPOINT",
];

/// Names of the variables set that say with what a store is opened, one for each: that it is read
/// without credentials, or where they are. Never what they hold.
pub fn credentials(scheme: Scheme, settings: &StoreSettings) -> Vec<&'static str> {
    let (skip, names) = match scheme {
        Scheme::S3 => ("AWS_SKIP_SIGNATURE", S3),
        Scheme::Gcs => ("GOOGLE_SKIP_SIGNATURE", GCS),
        Scheme::Azure => ("AZURE_SKIP_SIGNATURE", AZURE),
        Scheme::Http | Scheme::Https => return Vec::new(),
    };
    let all = std::iter::once(skip).chain(names.iter().copied());
    all.filter(|name| settings.get(name).is_some()).collect()
}
