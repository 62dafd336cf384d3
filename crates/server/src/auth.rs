//! Application keys and client tokens: who sends a request, and what that allows.

mod signatures;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handback_core::calls::Actor;
use handback_core::id::{ClientId, SessionId};
use handback_core::sessions::Agents;
use handback_core::store::DEFAULT_AGENT;
use handback_core::store::Session;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::config::{self, Secret};
use crate::problem::Problem;
use handback_wire::error::ErrorCode;

/// How much clocks may differ.
const LEEWAY: Duration = Duration::from_secs(5);
/// How long a token is valid by default.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);
/// How long a token can be valid at most.
pub const LARGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The latest `exp` of a token, in seconds: the end of the year 9999. Later times overflow.
const LATEST_EXPIRY: u64 = 253_402_300_799;

/// The bytes before every Ed25519 public key, which has 32 bytes (RFC 8410).
const ED25519_PREFIX: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The application, which may do everything.
    Application,
    /// A client, perhaps in one session only.
    Client(ClientPrincipal),
}

/// A client with a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPrincipal {
    /// The client.
    pub client: ClientId,
    /// The only session that it may touch.
    pub session: Option<SessionId>,
    /// Agents that it may name besides those that are open to all.
    pub agents: Vec<String>,
    /// When its token expires. Streams that it opened end then.
    pub expires: SystemTime,
}

impl Principal {
    /// Fails unless this is the application.
    pub fn must_be_application(&self) -> Result<(), Problem> {
        match self {
            Self::Application => Ok(()),
            Self::Client(_) => Err(Problem::forbidden("a client token does not allow this; an application key does")),
        }
    }

    /// Fails unless this is that client or the application.
    pub fn must_be_client(&self, client: &ClientId) -> Result<(), Problem> {
        match self {
            Self::Client(own) if own.client != *client => {
                Err(Problem::forbidden(format!("the token speaks for client {}, not {client}", own.client)))
            }
            _ => Ok(()),
        }
    }

    /// The session of a request: the one it names, or the only one that the token allows.
    pub fn session(&self, named: Option<SessionId>) -> Result<Option<SessionId>, Problem> {
        let Self::Client(ClientPrincipal { session: Some(only), .. }) = self else { return Ok(named) };
        match named {
            Some(named) if named != *only => {
                Err(Problem::forbidden(format!("the token is good for session {only}, not {named}")))
            }
            _ => Ok(Some(only.clone())),
        }
    }

    /// Fails unless this may name an agent; `None` is the session's agent, or the default one. Whoever may use a session may
    /// name the agent that the session was created with.
    pub fn must_be_allowed(
        &self,
        agents: &Agents,
        name: Option<&str>,
        session: Option<&Session>,
    ) -> Result<(), Problem> {
        let Self::Client(own) = self else { return Ok(()) };
        let made_with = session.map(Session::agent_name);
        let name = name.or(made_with).unwrap_or(DEFAULT_AGENT);
        let is_open = || agents.find(name).is_some_and(|agent| agent.is_open);
        if made_with == Some(name) || own.agents.iter().any(|claimed| claimed == name) || is_open() {
            return Ok(());
        }
        Err(Problem::forbidden(format!("the token does not allow the agent \"{}\"", name.escape_default())))
    }

    /// The actor for operations on calls.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Application => Actor::Trusted,
            Self::Client(own) => Actor::Client { client: own.client.clone(), session: own.session.clone() },
        }
    }

    /// How long a stream that it opens now may stay open; `None` has no end.
    pub fn lifetime(&self, now: SystemTime) -> Option<Duration> {
        match self {
            Self::Application => None,
            Self::Client(own) => Some((own.expires + LEEWAY).duration_since(now).unwrap_or_default()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claims {
    #[serde(rename = "clientID")]
    client_id: String,
    #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    agents: Vec<String>,
    exp: u64,
}

/// What a new token grants.
#[derive(Debug)]
pub struct Grant {
    /// The client that it speaks for.
    pub client: ClientId,
    /// The only session that it allows.
    pub session: Option<SessionId>,
    /// Agents that it may name besides those that are open to all.
    pub agents: Vec<String>,
    /// How long it is valid.
    pub ttl: Option<Duration>,
}

/// The keys, and what tokens are checked and signed with.
pub struct Auth {
    keys: Vec<Secret<[u8; 32]>>,
    /// Each key with its only algorithm.
    verifiers: Vec<(DecodingKey, Validation)>,
    signer: Option<EncodingKey>,
}

/// A public key that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("auth.publicKey is not an Ed25519 public key in PEM: {0}")]
pub struct BadPublicKey(String);

impl Auth {
    /// Sets up what is configured.
    pub fn new(config: &config::Auth) -> Result<Self, BadPublicKey> {
        signatures::install();
        let mut verifiers = Vec::new();
        let secret = config.token_secret.as_ref().map(|secret| secret.expose().as_bytes());
        if let Some(secret) = secret {
            verifiers.push((DecodingKey::from_secret(secret), validation(Algorithm::HS256)));
        }
        if let Some(pem) = &config.public_key {
            verifiers.push((ed25519_key(pem)?, validation(Algorithm::EdDSA)));
        }
        Ok(Self { keys: config.keys.clone(), verifiers, signer: secret.map(EncodingKey::from_secret) })
    }

    /// Whether everybody is trusted, because no keys are configured.
    pub fn is_open(&self) -> bool {
        self.keys.is_empty()
    }

    /// Who sends this key or token.
    pub fn authenticate(&self, credential: Option<&str>) -> Result<Principal, Problem> {
        if self.is_open() {
            return Ok(Principal::Application);
        }
        let Some(credential) = credential else {
            return Err(unauthorized("send an application key or a client token: `Authorization: Bearer …`"));
        };
        let hash = digest(&SHA256, credential.as_bytes());
        // All keys are compared, each in constant time, so that the time reveals nothing.
        let matching = self.keys.iter().filter(|key| key.expose().ct_eq(hash.as_ref()).into());
        if matching.count() > 0 {
            return Ok(Principal::Application);
        }
        let verified = self.verifiers.iter().find_map(|(key, validation)| {
            jsonwebtoken::decode::<Claims>(credential, key, validation).ok().map(|token| token.claims)
        });
        let Some(claims) = verified else { return Err(unauthorized("the key or token is not valid, or has expired")) };
        let client = ClientId::parse(&claims.client_id);
        let session = claims.session_id.as_deref().map(SessionId::parse).transpose();
        let (Ok(client), Ok(session)) = (client, session) else {
            return Err(unauthorized("the token's clientID or sessionID is not a valid id"));
        };
        if claims.exp > LATEST_EXPIRY {
            return Err(unauthorized("the token's exp is not a time in seconds"));
        }
        let expires = UNIX_EPOCH + Duration::from_secs(claims.exp);
        Ok(Principal::Client(ClientPrincipal { client, session, agents: claims.agents, expires }))
    }

    /// Makes a client token. Returns when it expires, too.
    pub fn mint(&self, grant: Grant, now: SystemTime) -> Result<(String, SystemTime), Problem> {
        let Some(signer) = &self.signer else {
            return Err(Problem::new(
                ErrorCode::Unavailable,
                "tokens cannot be made here: set auth.tokenSecret in the configuration",
            ));
        };
        let ttl = grant.ttl.unwrap_or(DEFAULT_TTL);
        if ttl.is_zero() || ttl > LARGEST_TTL {
            return Err(Problem::invalid(format!("`ttl` must be 1 to {} seconds", LARGEST_TTL.as_secs())));
        }
        let exp = (now + ttl).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = Claims {
            client_id: grant.client.to_string(),
            session_id: grant.session.map(|session| session.to_string()),
            agents: grant.agents,
            exp,
        };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, signer);
        let token = token.map_err(|_| Problem::new(ErrorCode::InternalError, "the token could not be signed"))?;
        Ok((token, UNIX_EPOCH + Duration::from_secs(exp)))
    }
}

fn ed25519_key(text: &str) -> Result<DecodingKey, BadPublicKey> {
    let encoded = pem::parse(text).map_err(|error| BadPublicKey(error.to_string()))?.into_contents();
    let key = encoded.strip_prefix(ED25519_PREFIX).filter(|key| key.len() == 32);
    key.map(DecodingKey::from_ed_der).ok_or_else(|| BadPublicKey("it is another kind of key".to_owned()))
}

fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = LEEWAY.as_secs();
    validation.validate_aud = false;
    validation.validate_nbf = true;
    validation.set_required_spec_claims(&["exp"]);
    validation
}

fn unauthorized(message: &str) -> Problem {
    Problem::new(ErrorCode::Unauthorized, message)
}
