//! How Handback and its clients speak TLS to others. It is said here, not by a default of the process: whoever embeds the
//! server or the SDK may have a default of their own.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

/// The settings of an HTTP client: certificates that the machine trusts, and HTTP/1.1.
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
