//! Keys and tokens of requests.

use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use handback_core::id::ClientId;
use handback_server::auth::{Auth, Principal};
use handback_server::config::Config;
use ring::hmac;

use super::first_line;
use crate::keys::{self, Issuer};

struct Keys {
    auth: Auth,
    issuer: Issuer,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (mut config, issuer) = (Config::default(), Issuer::new());
        keys::protect(&mut config);
        config.auth.public_key = Some(issuer.public_key());
        Keys { auth: Auth::new(&config.auth).unwrap(), issuer }
    })
}

/// A token as it is; a head and, on the next line, claims, which are signed here; and a public key.
pub fn tokens(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Keys { auth, issuer } = keys();
    check(auth, text);
    let mut config = Config::default();
    config.auth.public_key = Some(text.to_owned());
    _ = Auth::new(&config.auth);

    let (head, claims) = first_line(bytes);
    let signing = keys::signing_bytes(head, claims);
    check(
        auth,
        &keys::with_signature(&signing, &keys::hmac_signature(hmac::HMAC_SHA256, keys::TOKEN_SECRET, &signing)),
    );
    check(auth, &keys::with_signature(&signing, &issuer.sign(&signing)));
}

/// Only the key is the application's. Whoever has a good token may do what its claims say.
fn check(auth: &Auth, credential: &str) {
    let Ok(principal) = auth.authenticate(Some(credential)) else { return };
    match &principal {
        Principal::Application => assert_eq!(credential, keys::APPLICATION_KEY),
        Principal::Client(own) => {
            assert!(ClientId::parse(own.client.as_str()).is_ok());
            assert_eq!(principal.session(None).unwrap(), own.session);
            assert!(principal.must_be_application().is_err());
        }
    }
    let now = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    _ = (principal.actor(), principal.lifetime(now));
}
