//! Where a database is, and how its certificate is checked.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::lane::Address;

/// How long a connection may be silent before the system asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long what was sent may stay unacknowledged.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(8);

/// Why the URL of a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// It is no URL of a PostgreSQL database.
    #[error("the database's URL cannot be used: {0}; it looks like postgres://user:password@host:5432/name")]
    Url(String),
    /// The certificates to trust cannot be read.
    #[error("the certificates in {} cannot be read: {cause}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
}

/// Reads a URL. Besides what the driver knows, it may have `sslmode=verify-full` and `sslrootcert=FILE`. Wherever there is TLS,
/// the certificate is checked.
pub(crate) fn read(url: &str) -> Result<Address, BadAddress> {
    let bad = |cause: &dyn fmt::Display| BadAddress::Url(cause.to_string());
    let (url, trusted) = take_trusted(url);
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        BadAddress::Url(cause.unwrap_or_else(|| error.to_string()))
    })?;
    if config.get_hosts().is_empty() {
        return Err(bad(&"it names no host"));
    }
    if config.get_application_name().is_none() {
        config.application_name("handback");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(3));
    }
    config.keepalives_idle(KEEPALIVE).tcp_user_timeout(ACKNOWLEDGED_WITHIN);
    let mut tls = match &trusted {
        Some(path) => trusting(path)?,
        None => handback_tls::client_config().map_err(|error| bad(&error))?,
    };
    // Those are for HTTP.
    tls.alpn_protocols.clear();
    Ok(Address { config, tls: MakeRustlsConnect::new(tls) })
}

/// Takes out of a URL what the driver does not know: `verify-full` becomes `require`, since every certificate is checked, and the
/// file of certificates is returned.
fn take_trusted(url: &str) -> (String, Option<PathBuf>) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut trusted = None;
    let mut kept = Vec::new();
    for setting in query.split('&') {
        match setting.split_once('=') {
            Some(("sslrootcert", path)) => {
                trusted = Some(PathBuf::from(&*percent_decode_str(path).decode_utf8_lossy()));
            }
            Some(("sslmode", "verify-full" | "verify-ca")) => kept.push("sslmode=require"),
            _ => kept.push(setting),
        }
    }
    let url = if kept.is_empty() { address.to_owned() } else { format!("{address}?{}", kept.join("&")) };
    (url, trusted)
}

/// TLS that trusts the certificates in a file, and no others.
fn trusting(path: &Path) -> Result<ClientConfig, BadAddress> {
    let unreadable =
        |cause: &dyn fmt::Display| BadAddress::Certificates { path: path.into(), cause: cause.to_string() };
    let text = fs::read(path).map_err(|error| unreadable(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() {
        return Err(unreadable(&"there are none in it"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(|error| unreadable(&error))?.with_root_certificates(roots).with_no_client_auth())
}

/// The name of the database with this URL, for people: without the user and the password.
pub fn name_of(url: &str) -> Result<String, BadAddress> {
    Ok(name(&read(url)?.config))
}

/// The same, of a URL that was read.
pub(super) fn name(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(place, host)| {
        let port = config.get_ports().get(place).or(config.get_ports().first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            Host::Unix(path) => path.display().to_string(),
        }
    });
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{}/{name}", hosts.collect::<Vec<_>>().join(","))
}

/// Whether a database is reached without TLS although it is on another machine.
pub(super) fn is_in_the_open(config: &Config) -> bool {
    let is_remote = |host: &Host| matches!(host, Host::Tcp(host) if !handback_tls::is_loopback(host));
    config.get_ssl_mode() == SslMode::Disable && config.get_hosts().iter().any(is_remote)
}

#[cfg(test)]
mod tests;
