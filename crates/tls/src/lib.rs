//! The TLS settings of Handback and its clients. They are explicit and do not use the default of the process, because a
//! program that embeds the server or the SDK may set its own default.

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
