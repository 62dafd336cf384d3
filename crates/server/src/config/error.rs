//! The errors of a configuration, and the sources of its values.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a configuration was refused. The texts tell the operator where, which key, what was found, and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read file {}: {_1}", ._0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The file's name does not say its format.
    #[error("file {}: the name of a configuration file must end in .toml or .json", ._0.display())]
    Format(PathBuf),
    /// The file is not TOML or not JSON: what is wrong, with line and column.
    #[error("file {}: {_1}", ._0.display())]
    Syntax(PathBuf, String),
    /// Two files, or two variables for one key, exist, and neither comes first.
    #[error("{_0} and {_1} are both present; keep one of them")]
    Both(String, String),
    /// There is no such key.
    #[error("{origin}: unknown key {key}{}; allowed here: {}", did_you_mean(.nearest.as_deref()), .allowed.join(", "))]
    UnknownKey {
        /// Where it was given.
        origin: Source,
        /// Its full path.
        key: String,
        /// The allowed key with the most similar spelling.
        nearest: Option<String>,
        /// The keys of its table.
        allowed: Vec<String>,
    },
    /// The key does not take this value.
    #[error("{origin}: {key}: {problem}")]
    Value {
        /// Where it was given.
        origin: Source,
        /// The key's full path.
        key: String,
        /// What was found, and what is allowed.
        problem: String,
    },
    /// Other machines could reach the server without a key.
    #[error(
        "{_0}: listen: {_1} can be reached from other machines, and auth.keys is empty; listen on a loopback address \
         such as 127.0.0.1:4096, or make a key of 32 random bytes with `openssl rand -hex 32` and put its SHA-256, \
         as printed by `printf %s KEY | sha256sum`, into auth.keys"
    )]
    Unprotected(Source, SocketAddr),
}

/// The hint at the end of an error about an unknown name.
pub(super) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

/// Where a value came from; later ones win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The default.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// The environment variable of this name.
    Environment(String),
    /// The flag of this name.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}
