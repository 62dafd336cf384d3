//! `handback key`.

use anyhow::anyhow;
use clap::Args;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;

use crate::output::{print, print_json};

/// How many random bytes a key or secret has. Nobody can guess that many.
const BYTES: usize = 32;

/// Makes an application key and a secret for client tokens, and says what to put where.
///
/// The key is printed once, and kept nowhere. The configuration file has its hash, which is of no use to whoever reads it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback key\n  handback key --json | jq -r .key")]
pub(crate) struct KeyArgs {
    /// Print them as JSON, for scripts.
    #[arg(long)]
    json: bool,
}

/// A key, and what belongs to it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    key: String,
    /// The SHA-256 of the key, in hex.
    hash: String,
    token_secret: String,
}

pub(crate) fn run(args: KeyArgs) -> anyhow::Result<()> {
    let (key, token_secret) = (random()?, random()?);
    let hash = hex(digest(&SHA256, key.as_bytes()).as_ref());
    let made = Made { key, hash, token_secret };
    if args.json {
        return print_json(&made);
    }
    let Made { key, hash, token_secret } = made;
    Ok(print(&format!(
        "The key of the application. Keep it now: it is shown this once.\n\n    {key}\n\n\
         The application sends it with every request, and so does whoever opens the console:\n\n    \
         Authorization: Bearer {key}\n\n\
         Commands take it from the environment:\n\n    export HANDBACK_TOKEN={key}\n\n\
         The server knows it by its hash. In handback.toml:\n\n    [auth]\n    keys = [\"{hash}\"]\n    \
         tokenSecret = \"{token_secret}\"\n\n\
         Or in its environment, such as the file that the systemd unit reads, which only root may read:\n\n    \
         HANDBACK_AUTH_KEYS={hash}\n    HANDBACK_AUTH_TOKEN_SECRET={token_secret}\n\n\
         The secret signs the tokens of clients, and stays with the server: handback token --client ID\n"
    ))?)
}

/// Random bytes in hex.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("the system gives no random bytes; see its log"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
