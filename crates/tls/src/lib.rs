//! What the server and the SDK share when they make HTTP requests. The TLS settings are explicit and do not use the default
//! of the process, because a program that embeds the server or the SDK may set its own default.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

/// The TLS settings of an HTTP client: it trusts the machine's certificates and speaks HTTP/1.1.
///
/// # Errors
/// The certificates that the machine trusts cannot be read.
pub fn client_config() -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Whether the host of a URL is this machine. The proxy of the environment is not for such a URL.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The innermost error, because the outer ones only say that a request failed; `None` if the connection was closed.
pub fn root_cause(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    (!cause.downcast_ref::<io::Error>().is_some_and(is_closed)).then(|| cause.to_string())
}
